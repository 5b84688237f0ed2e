// SPDX-License-Identifier: Apache-2.0
// Types and limits of single values.
#include <gmock/gmock.h>

#include "models/resnet/resnet.h"
#include "tests/config/support.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ConfigValue, IntegersAreDecimalWithAnOptionalSign) {
  EXPECT_EQ(parsed("train: {steps: 50}").train.steps, 50);
  EXPECT_EQ(parsed("train: {steps: +50}").train.steps, 50);
}

TEST(ConfigValue, IntegerRefusesAnythingElseAndSaysWhatToWrite) {
  EXPECT_EQ(parse_error("train: {steps: abc}"),
            "a.yaml:1: train.steps: expected an integer, found the text \"abc\"");
  EXPECT_EQ(parse_error("train: {steps: 1.5}"),
            "a.yaml:1: train.steps: expected an integer, found the number 1.5");
  EXPECT_EQ(parse_error("train: {steps: 1e3}"),
            "a.yaml:1: train.steps: expected an integer, found the number 1e3; write 1000");
  EXPECT_EQ(parse_error("train: {steps: 1_000}"),
            "a.yaml:1: train.steps: expected an integer, found the text \"1_000\"; write 1000");
  EXPECT_EQ(parse_error("train: {steps: 0x10}"),
            "a.yaml:1: train.steps: expected an integer, found the text \"0x10\"");
  EXPECT_THAT(parse_error("train: {steps: 010}"), HasSubstr("; write 10"));
  EXPECT_THAT(parse_error("train: {steps: true}"), HasSubstr("found the boolean true"));
  EXPECT_THAT(parse_error("train: {steps: \"50\"}"),
              HasSubstr("found the text \"50\"; remove the quotes"));
  EXPECT_THAT(parse_error("train: {steps: }"), HasSubstr("found no value"));
  EXPECT_THAT(parse_error("train: {steps: ~}"), HasSubstr("found no value"));
  EXPECT_THAT(parse_error("train: {steps: [1]}"), HasSubstr("found a list"));
  EXPECT_THAT(parse_error("train: {steps: {a: 1}}"), HasSubstr("found a section"));
  EXPECT_THAT(parse_error("train: {steps: -}"), HasSubstr("expected an integer"));
}

TEST(ConfigValue, IntegerOutOfRangeNamesTheRange) {
  EXPECT_EQ(parse_error("model:\n  hidden: 0"),
            "a.yaml:2: model.hidden: 0 is out of range; allowed: 1 to 65536");
  EXPECT_THAT(parse_error("model: {hidden: -5}"),
              HasSubstr("-5 is out of range; allowed: 1 to 65536"));
  EXPECT_THAT(parse_error("model: {hidden: 65537}"), HasSubstr("allowed: 1 to 65536"));
  EXPECT_THAT(parse_error("train: {steps: 99999999999999999999999}"),
              HasSubstr("99999999999999999999999 is out of range"));
  EXPECT_THAT(parse_error("train: {steps: -99999999999999999999999}"),
              HasSubstr("is out of range"));
}

TEST(ConfigValue, SeedUsesAll64Bits) {
  EXPECT_EQ(parsed("run: {seed: 18446744073709551615}").run.seed, ~0ULL);
  EXPECT_THAT(parse_error("run: {seed: 18446744073709551616}"),
              HasSubstr("allowed: 0 to 2^64 - 1"));
  EXPECT_THAT(parse_error("run: {seed: -1}"), HasSubstr("allowed: 0 to 2^64 - 1"));
}

TEST(ConfigValue, ASourceIsAPathOrKeysOfTheDataSection) {
  const Config config = parsed(
      "model: {family: resnet}\n"
      "data:\n"
      "  sources:\n"
      "    - packed/a\n"
      "    - {name: b, files: [x/*.h5, y.h5], inputs: u, scaling: mean_std, mean: [1], std: "
      "[2]}\n");
  ASSERT_EQ(config.data.sources.size(), 2U);
  EXPECT_EQ(config.data.sources[0].label(), "packed/a");
  EXPECT_EQ(config.data.sources[1].label(), "b");
  EXPECT_THAT(config.data.sources[1].files, ElementsAre("x/*.h5", "y.h5"));
  EXPECT_EQ(config.data.sources[1].scaling, Scaling::mean_std);
  EXPECT_EQ(config.data.sources[1].axes, "HWC");
  EXPECT_TRUE(config.data.float_samples());
  EXPECT_EQ(parsed(to_yaml(config)), config);
  EXPECT_EQ(parsed("data: {}", {"data.sources=[{path: a, validation_path: b}]"})
                .data.sources[0]
                .validation_path,
            "b");
}

TEST(ConfigValue, ASourceIsRefusedByItsNumberAndKey) {
  EXPECT_EQ(parse_error("data:\n  sources: [{pth: a}]"),
            "a.yaml:2: data.sources[0].pth: not a key of a data set; did you mean path?");
  EXPECT_THAT(parse_error("data: {sources: [a, {path: b, workers: 2}]}"),
              HasSubstr("data.sources[1].workers: not a key of a data set; known are name, path"));
  EXPECT_THAT(parse_error("data: {sources: [a, \"\"]}"),
              HasSubstr("data.sources[1]: must not be empty"));
  EXPECT_THAT(parse_error("data: {sources: [[a]]}"), HasSubstr("expected text, found a list"));
  EXPECT_THAT(parse_error("data: {sources: [{path: a, samples: rows}]}"),
              HasSubstr("data.sources[0].samples: expected one of file, axis, group"));
}

TEST(ConfigValue, NumbersMayBeScientific) {
  EXPECT_EQ(parsed("optimizer: {learning_rate: 1e-3}").optimizer.learning_rate, 1e-3);
  EXPECT_EQ(parsed("optimizer: {learning_rate: 2E-3}").optimizer.learning_rate, 2e-3);
  EXPECT_EQ(parsed("optimizer: {learning_rate: 1}").optimizer.learning_rate, 1.0);
  EXPECT_EQ(parsed("optimizer: {learning_rate: .5}").optimizer.learning_rate, 0.5);
  EXPECT_FALSE(std::signbit(parsed("optimizer: {learning_rate: -0.0}").optimizer.learning_rate));
}

TEST(ConfigValue, NumberRefusesNaNAndInfinity) {
  for (const char* const word :
       {"nan", ".nan", ".NaN", "inf", ".inf", "-.inf", "+inf", "Infinity"}) {
    EXPECT_THAT(parse_error(std::string("optimizer: {learning_rate: ") + word + "}"),
                HasSubstr("infinity and NaN are not allowed"))
        << word;
  }
}

TEST(ConfigValue, NumberOutOfRangeNamesTheRange) {
  EXPECT_THAT(parse_error("optimizer: {learning_rate: -1e-3}"),
              HasSubstr("-1e-3 is out of range; allowed: 0 to 1000"));
  EXPECT_THAT(parse_error("optimizer: {learning_rate: 1e400}"), HasSubstr("1e400 is out of range"));
  EXPECT_THAT(parse_error("model: {dropout: 1}"),
              HasSubstr("1 is out of range; allowed: >= 0 and < 1"));
  EXPECT_THAT(parse_error("optimizer: {epsilon: 0}"),
              HasSubstr("0 is out of range; allowed: > 0 and <= 1"));
}

TEST(ConfigValue, NumberRefusesTextWithAHint) {
  EXPECT_THAT(parse_error("optimizer: {learning_rate: '1e-3'}"), HasSubstr("remove the quotes"));
  EXPECT_THAT(parse_error("optimizer:\n  learning_rate: 0,001"),
              HasSubstr("the decimal sign is a point"));
  EXPECT_THAT(parse_error("optimizer: {learning_rate: 1e-3x}"),
              HasSubstr("found the text \"1e-3x\""));
  EXPECT_THAT(parse_error("optimizer: {learning_rate: 1 e-3}"), HasSubstr("expected a number"));
}

TEST(ConfigValue, BooleansAreTrueAndFalse) {
  EXPECT_TRUE(parsed("data: {flip: true}").data.flip);
  EXPECT_FALSE(parsed("data: {shuffle: False}").data.shuffle);
  EXPECT_EQ(parse_error("data: {flip: yes}"),
            "a.yaml:1: data.flip: expected true or false, found the text \"yes\"");
  EXPECT_THAT(parse_error("data: {flip: 1}"), HasSubstr("found the number 1"));
}

TEST(ConfigValue, ChoiceListsTheWordsAndSuggestsTheNearest) {
  EXPECT_THAT(parse_error("model: {family: gtp2}"),
              AllOf(HasSubstr("a.yaml:1: model.family: expected one of gpt2, llama, "),
                    HasSubstr("found the text \"gtp2\"; did you mean gpt2?")));
  EXPECT_EQ(parse_error("precision: double"),
            "a.yaml:1: precision: expected one of auto, fp32, tf32, bf16, fp16, fp8, found the "
            "text \"double\"");
}

TEST(ConfigValue, ASwitchReadsTheWordsOfABooleanAndIsWrittenOffOrOn) {
  for (const char* const word : {"on", "true"})
    EXPECT_TRUE(
        parsed(std::string("device: {fused_epilogues: ") + word + "}").device.fused_epilogues);
  for (const char* const word : {"off", "false"})
    EXPECT_FALSE(
        parsed("run: {}", {std::string("device.fused_epilogues=") + word}).device.fused_epilogues);
  EXPECT_THAT(to_yaml(parsed("device: {fused_epilogues: true}")),
              HasSubstr("fused_epilogues: on\n"));
  EXPECT_EQ(parse_error("device: {fused_epilogues: onn}"),
            "a.yaml:1: device.fused_epilogues: expected one of off, on, found the text \"onn\"; "
            "did you mean on?");
}

TEST(ConfigValue, WordsThatYamlCouldReadAsBooleansStayWords) {
  EXPECT_EQ(parsed("device: {graphs: off}").device.graphs, GraphMode::off);
}

TEST(ConfigValue, TextIsTakenAsWritten) {
  EXPECT_EQ(parsed("run: {directory: 2024}").run.directory, "2024");
  EXPECT_EQ(parsed("run: {directory: 'my runs/a: b #1'}").run.directory, "my runs/a: b #1");
  EXPECT_EQ(parsed("run: {directory: läufe/π}").run.directory, "läufe/π");
  EXPECT_EQ(parsed("data: {path: ''}").data.path, "");
}

TEST(ConfigValue, TextRefusesNothingEmptinessListsControlCharactersAndLength) {
  EXPECT_THAT(parse_error("data: {path: }"), HasSubstr("found no value; write \"\" for none"));
  EXPECT_THAT(parse_error("run: {directory: ''}"), HasSubstr("run.directory: must not be empty"));
  EXPECT_THAT(parse_error("run: {directory: [a]}"), HasSubstr("expected text, found a list"));
  EXPECT_THAT(parse_error("run: {directory: \"a\\0b\"}"),
              HasSubstr("\"a\\x00b\" contains control characters"));
  EXPECT_THAT(parse_error("run: {directory: " + std::string(5000, 'x') + "}"),
              HasSubstr("longer than 4096 bytes"));
}

TEST(ConfigValue, AutoSetsDataParallelRanks) {
  EXPECT_EQ(parsed("parallel: {data: auto}").parallel.data, 0);
  EXPECT_EQ(parsed("parallel: {data: 4}").parallel.data, 4);
  EXPECT_THAT(parse_error("parallel: {data: 0}"),
              HasSubstr("0 is out of range; allowed: auto | 1 to"));
  EXPECT_THAT(parse_error("parallel: {data: all}"), HasSubstr("expected auto or an integer"));
  EXPECT_THAT(parse_error("parallel: {tensor: auto}"), HasSubstr("expected an integer"));
}

TEST(ConfigValue, ListsHaveTypedElementsAndALength) {
  EXPECT_THAT(parsed("optimizer: {betas: [0.9, 0.99]}").optimizer.betas, ElementsAre(0.9, 0.99));
  EXPECT_THAT(parsed("data:\n  mean:\n    - 0.5\n    - 1").data.mean, ElementsAre(0.5, 1.0));
  EXPECT_THAT(parsed("model: {stages: [3, 4, 6, 3]}").model.as<ResNetOptions>().stages,
              ElementsAre(3, 4, 6, 3));
  EXPECT_THAT(parsed("data: {mean: []}").data.mean, ElementsAre());
}

TEST(ConfigValue, ListRefusesWrongLengthTypeAndRange) {
  EXPECT_THAT(parse_error("optimizer: {betas: [0.9]}"),
              HasSubstr("expected a list of 2 values, found 1 values"));
  EXPECT_THAT(parse_error("optimizer: {betas: 0.9}"),
              HasSubstr("expected a list of 2 values, found the number 0.9"));
  EXPECT_THAT(parse_error("optimizer: {betas: [0.9, 1.0]}"),
              HasSubstr("1.0 is out of range; allowed: 2 values, each >= 0 and < 1"));
  EXPECT_THAT(parse_error("model: {stages: []}"),
              HasSubstr("expected a list of 1 to 8 values, found 0 values"));
  EXPECT_THAT(parse_error("model: {stages: [1,1,1,1,1,1,1,1,1]}"), HasSubstr("found 9 values"));
  EXPECT_THAT(parse_error("model: {stages: [2, x]}"),
              HasSubstr("expected an integer, found the text \"x\""));
  EXPECT_THAT(parse_error("data: {std: [0]}"), HasSubstr("0 is out of range"));
  EXPECT_THAT(parse_error("data: {mean: [[1]]}"), HasSubstr("expected a number, found a list"));
}

}  // namespace
}  // namespace trireme
