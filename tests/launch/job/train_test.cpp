// SPDX-License-Identifier: Apache-2.0
// Runs that must agree: rank counts, reducers, repetitions, precisions.
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/launch/fixture/run_fixture.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

class TrainTest : public RunTest {
 protected:
  void expect_same_curve(const std::string& a, const std::string& b, double relative) const {
    const auto first = steps_of(a), second = steps_of(b);
    ASSERT_EQ(first.size(), second.size());
    ASSERT_FALSE(first.empty());
    for (std::size_t i = 0; i < first.size(); ++i) {
      EXPECT_EQ(first[i].step, second[i].step);
      EXPECT_NEAR(first[i].loss, second[i].loss, relative * std::abs(first[i].loss))
          << "step " << first[i].step;
    }
  }
};

#define ASSERT_RUNS(call)                      \
  do {                                         \
    const CommandResult ran = (call);          \
    ASSERT_EQ(ran.exit_code, 0) << ran.output; \
  } while (false)

TEST_F(TrainTest, GptFollowsItsGoldenLosses) {
  ASSERT_RUNS(train_gpt("golden", 0));

  const auto steps = steps_of("golden");
  const double golden[] = {5.547263, 5.342743, 5.191518, 5.063220, 4.954797, 4.909056};
  ASSERT_EQ(steps.size(), std::size(golden));
  for (std::size_t i = 0; i < steps.size(); ++i)
    EXPECT_NEAR(steps[i].loss, golden[i], 1e-3) << "step " << i + 1;
}

TEST_F(TrainTest, ResNetFollowsItsGoldenLosses) {
  ASSERT_RUNS(train_resnet("golden", 0));

  const auto steps = steps_of("golden");
  const double golden[] = {1.296777, 1.162062, 1.117780, 1.102477, 1.021283};
  ASSERT_EQ(steps.size(), std::size(golden));
  for (std::size_t i = 0; i < steps.size(); ++i)
    EXPECT_NEAR(steps[i].loss, golden[i], 2e-3) << "step " << i + 1;
}

TEST_F(TrainTest, GptOnTwoAndFourRanksEqualsOneToRounding) {
  ASSERT_RUNS(train_gpt("one", 1));
  ASSERT_RUNS(train_gpt("two", 2));
  ASSERT_RUNS(train_gpt("four", 4));

  expect_same_curve("one", "two", 1e-5);
  expect_same_curve("one", "four", 1e-5);
  EXPECT_NEAR(validation_loss_of("one"), validation_loss_of("four"), 1e-5);
}

TEST_F(TrainTest, ResNetOnTwoAndFourRanksEqualsOneToRounding) {
  ASSERT_RUNS(train_resnet("one", 1));
  ASSERT_RUNS(train_resnet("two", 2));
  ASSERT_RUNS(train_resnet("four", 4));

  expect_same_curve("one", "two", 2e-5);
  expect_same_curve("one", "four", 2e-5);
  EXPECT_NEAR(validation_loss_of("one"), validation_loss_of("four"), 1e-4);
}

TEST_F(TrainTest, APlanBeyondTheHostsMemoryIsRefusedBeforeAnythingIsAllocated) {
  const CommandResult refused =
      train_gpt("large", 2,
                {"model.hidden=1024", "model.heads=8", "train.global_batch=2097152",
                 "train.micro_batch=1048576"});

  EXPECT_EQ(refused.exit_code, 2) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("the plan does not fit: 2 ranks need"));
  EXPECT_THAT(refused.output, HasSubstr("lower train.micro_batch"));
}

TEST_F(TrainTest, ThreeRanksShareAGlobalBatchOfSix) {
  ASSERT_RUNS(train_gpt("one", 1, {"train.global_batch=6"}));
  ASSERT_RUNS(train_gpt("three", 3, {"train.global_batch=6"}));

  expect_same_curve("one", "three", 1e-5);
}

TEST_F(TrainTest, TheSameConfigTwiceGivesTheSameBits) {
  ASSERT_RUNS(train_gpt("first", 2));
  ASSERT_RUNS(train_gpt("second", 2));

  EXPECT_TRUE(weights_of("first") == weights_of("second"));
}

TEST_F(TrainTest, OverlappedAndInlineReductionGiveTheSameBits) {
  ASSERT_RUNS(train_gpt("overlapped", 2, {"parallel.bucket_megabytes=0.01"}));
  ASSERT_RUNS(
      train_gpt("inline", 2, {"parallel.bucket_megabytes=0.01", "parallel.reducer=inline"}));

  EXPECT_TRUE(weights_of("overlapped") == weights_of("inline"));
}

TEST_F(TrainTest, ASecondSeedGivesOtherWeights) {
  ASSERT_RUNS(train_gpt("a", 0));
  ASSERT_RUNS(train_gpt("b", 0, {"run.seed=8"}));

  EXPECT_FALSE(weights_of("a") == weights_of("b"));
}

TEST_F(TrainTest, CheckedCollectivesChangeNothing) {
  ASSERT_RUNS(train_gpt("plain", 2));
  ASSERT_RUNS(train_gpt("checked", 2, {"parallel.check_collectives=true"}));

  EXPECT_TRUE(weights_of("plain") == weights_of("checked"));
}

TEST_F(TrainTest, Bf16StaysCloseToFp32) {
  ASSERT_RUNS(train_gpt("fp32", 0));
  ASSERT_RUNS(train_gpt("bf16", 2, {"precision=bf16"}));

  expect_same_curve("fp32", "bf16", 0.01);
}

TEST_F(TrainTest, Fp16StaysCloseToFp32AtALossScaleThatFits) {
  ASSERT_RUNS(train_gpt("fp32", 0));
  ASSERT_RUNS(train_gpt("fp16", 2, {"precision=fp16", "loss_scale.initial=1024"}));
  ASSERT_RUNS(train_resnet("images32", 0));
  ASSERT_RUNS(train_resnet("images16", 2, {"precision=fp16", "loss_scale.initial=1024"}));

  expect_same_curve("fp32", "fp16", 0.002);
  expect_same_curve("images32", "images16", 0.01);
  for (const LoggedStep& step : steps_of("fp16")) {
    EXPECT_EQ(step.loss_scale, 1024);
    EXPECT_EQ(step.skipped, 0);
  }
}

TEST_F(TrainTest, Fp8FollowsBf16) {
  ASSERT_RUNS(train_gpt("bf16", 0, {"precision=bf16", "train.steps=30"}));
  ASSERT_RUNS(train_gpt("fp8", 0, {"precision=fp8", "train.steps=30"}));
  ASSERT_RUNS(train_gpt("split", 2, {"precision=fp8", "train.steps=30", "parallel.tensor=2"}));

  expect_same_curve("bf16", "fp8", 0.03);
  expect_same_curve("bf16", "split", 0.03);
  EXPECT_FALSE(weights_of("bf16") == weights_of("fp8"));
}

// The gradient of one target alone is 16777216 / 256 targets = 65536, beyond f16.
TEST_F(TrainTest, Fp16SkipsOverflowsOnAllRanksUntilTheScaleFits) {
  const std::string scale = "loss_scale.initial=16777216", grow = "loss_scale.growth_interval=2";
  ASSERT_RUNS(train_gpt("one", 0, {"precision=fp16", scale, grow, "train.steps=12"}));
  ASSERT_RUNS(train_gpt("four", 4,
                        {"precision=fp16", scale, grow, "train.steps=12", "parallel.tensor=2",
                         "parallel.pipeline=2"}));
  ASSERT_RUNS(
      train_gpt("zero", 2, {"precision=fp16", scale, grow, "train.steps=12", "parallel.zero=3"}));
  ASSERT_RUNS(train_gpt("sent", 3,
                        {"precision=fp16", scale, grow, "train.steps=12", "parallel.zero=1",
                         "parallel.reduce_dtype=compute"}));

  for (const std::string name : {"one", "four", "zero", "sent"}) {
    const auto steps = steps_of(name);
    ASSERT_EQ(steps.size(), 12U) << name;
    EXPECT_EQ(steps.front().loss_scale, 16777216);
    EXPECT_EQ(steps.front().skipped, 1);
    EXPECT_EQ(steps[1].loss_scale, 8388608);
    EXPECT_LT(steps.back().loss, steps.front().loss) << name;
    EXPECT_LT(steps.back().skipped, 9) << name;
    int grown = 0;
    for (std::size_t i = 1; i < steps.size(); ++i) {
      const std::int64_t before = i > 1 ? steps[i - 2].skipped : 0;
      const double ratio = steps[i].loss_scale / steps[i - 1].loss_scale;
      if (steps[i - 1].skipped > before) {
        EXPECT_EQ(ratio, 0.5) << name << " step " << i + 1;
      } else {
        EXPECT_TRUE(ratio == 1 || ratio == 2) << name << " step " << i + 1;
      }
      grown += ratio == 2 ? 1 : 0;
    }
    EXPECT_GT(grown, 0) << name;
  }
}

TEST_F(TrainTest, DropoutDoesNotDependOnTheRankCount) {
  ASSERT_RUNS(train_gpt("one", 1, {"model.dropout=0.2"}));
  ASSERT_RUNS(train_gpt("two", 2, {"model.dropout=0.2"}));

  expect_same_curve("one", "two", 1e-5);
}

TEST_F(TrainTest, WritesAWeightAverageWhenAsked) {
  ASSERT_RUNS(train_gpt("averaged", 0, {"train.ema_decay=0.5"}));

  EXPECT_FALSE(read_file(directory() + "/averaged/weights_average.safetensors") ==
               weights_of("averaged"));
}

TEST_F(TrainTest, RunsFromAnotherDirectoryWithPathsRelativeToTheConfig) {
  const CommandResult result =
      run_command("cd / && " TRIREME_BINARY " train " + data_directory() +
                  "/gpt.yaml --set train.steps=2 --set run.directory=" + directory() + "/away");

  EXPECT_EQ(result.exit_code, 0) << result.output;
}

TEST_F(TrainTest, EpochsAndAShareOfWarmUpAreStepsOnceTheDataAreOpen) {
  const CommandResult steps = train_gpt("steps", 0, {"train.steps=7"});
  const auto at = steps.output.find(" samples in ");
  ASSERT_NE(at, std::string::npos) << steps.output;
  const std::int64_t samples = std::stoll(steps.output.substr(steps.output.rfind(' ', at - 1)));
  const std::int64_t of_one = samples / 8, wanted = (5 * of_one + 3) / 4;  // 1.25, rounded up
  const std::vector<std::string> given{"train.epochs=1.25", "train.global_batch=8",
                                       "train.micro_batch=2", "lr_schedule.warmup_fraction=0.1"};

  const CommandResult ran = train_gpt("epochs", 2, given);

  ASSERT_EQ(ran.exit_code, 0) << ran.output;
  EXPECT_EQ(steps_of("epochs").back().step, wanted);
  const std::string config = read_file(directory() + "/epochs/config.yaml");
  EXPECT_THAT(config, HasSubstr("\n  steps: " + std::to_string(wanted) + "\n  epochs: 0\n"));
  EXPECT_THAT(config, HasSubstr("\n  warmup_steps: " + std::to_string((wanted + 9) / 10) +
                                "\n  warmup_fraction: 0\n"));

  const CommandResult missing = train_gpt("missing", 0, {"train.epochs=2", "data.path=nowhere"});
  EXPECT_EQ(missing.exit_code, 3) << missing.output;
  EXPECT_THAT(missing.output, HasSubstr("train.epochs"));
}

TEST_F(TrainTest, PrintsTheResolvedConfigWithoutTraining) {
  const CommandResult result =
      trireme("train " + data_directory() + "/gpt.yaml --set train.steps=50 --print-config", 2);

  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("steps: 50"));
  EXPECT_THAT(result.output, HasSubstr("data: 2"));
}

TEST_F(TrainTest, EvalRepeatsTheLastValidationOnAnyNumberOfRanks) {
  ASSERT_RUNS(train_gpt("run", 2));
  const double expected = validation_loss_of("run");

  for (const int ranks : {0, 1, 3}) {
    const CommandResult result = trireme("eval " + directory() + "/run", ranks);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    const auto at = result.output.find("loss      ");
    ASSERT_NE(at, std::string::npos) << result.output;
    EXPECT_NEAR(std::stod(result.output.substr(at + 10)), expected, 2e-6);
  }
}

TEST_F(TrainTest, EvalWritesTheSameNumbersOnEveryLayout) {
  ASSERT_RUNS(train_gpt("run", 0, {"reproducibility=layout", "parallel.virtual_tensor=2"}));
  const std::string command = "eval " + directory() + "/run --json " + directory() + "/";
  const auto numbers = [&](const std::string& layout, int ranks) {
    std::string set = command + layout + ".json";
    if (ranks > 1) set += " --set parallel." + layout + "=" + std::to_string(ranks);
    const CommandResult result = trireme(set, ranks);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return read_file(directory() + "/" + layout + ".json");
  };

  const std::string alone = numbers("none", 0);

  const auto json = nlohmann::json::parse(alone).at("results").at(0);
  EXPECT_EQ(json.at("loss").get<double>(), validation_loss_of("run"));
  EXPECT_GT(json.at("top1").get<double>(), 0);
  EXPECT_GT(json.at("top5").get<double>(), json.at("top1").get<double>());
  EXPECT_LT(json.at("top5").get<double>(), 1);
  EXPECT_EQ(json.at("perplexity").get<double>(), std::exp(json.at("loss").get<double>()));
  for (const std::string layout : {"data", "tensor", "pipeline"})
    EXPECT_EQ(numbers(layout, 2), alone) << layout;
  const CommandResult late = trireme(command + "none/a.json");
  EXPECT_EQ(late.exit_code, 2);
  const std::string eval = "eval " + directory() + "/run ";
  EXPECT_EQ(late.output.find("loss "), std::string::npos) << "evaluated before it was refused";
  EXPECT_EQ(trireme(eval + "--out " + directory() + "/a").exit_code, 2);
  EXPECT_EQ(trireme(command + "a.json --continuations b.jsonl").exit_code, 2);
  write_file(directory() + "/pairs.jsonl",
             R"({"prompt": ")" + std::string(999, 'x') + R"(", "completion": "y"})");
  ASSERT_RUNS(trireme("data pack-text " + directory() + "/pairs.jsonl --pairs --split v --out " +
                      directory() + "/pairs"));
  const std::string uncounted = "--batches 1 --data " + directory() + "/pairs/v";
  const auto refused = [&](const std::string& options) {
    const CommandResult result = trireme(eval + options);
    EXPECT_EQ(result.exit_code, 3);
    return result.output;
  };
  EXPECT_THAT(refused(uncounted), testing::HasSubstr("so there is no loss"));
  EXPECT_THAT(refused(uncounted + " --data " + directory() + "/none"),
              testing::HasSubstr("none: no such file"));  // before the first is evaluated
}

TEST_F(TrainTest, WidthTransferIsTheStandardParametrisationAtItsBaseAndTheSameOnEveryLayout) {
  const std::vector<std::string> layout = {"reproducibility=layout", "parallel.tensor_blocks=2"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), layout.begin(), layout.end());
    return more;
  };
  ASSERT_RUNS(train_gpt("standard", 0, with({})));
  ASSERT_RUNS(train_gpt("base", 0, with({"model.mup_base_width=32"})));
  EXPECT_TRUE(weights_of("base") == weights_of("standard"));

  ASSERT_RUNS(train_gpt("wide", 0, with({"model.mup_base_width=8"})));
  EXPECT_FALSE(weights_of("wide") == weights_of("standard"));
  int runs = 0;
  for (const char* const split : {"parallel.tensor=2", "parallel.pipeline=2", "parallel.zero=3"}) {
    const std::string name = "wide" + std::to_string(++runs);
    ASSERT_RUNS(train_gpt(name, 2, with({"model.mup_base_width=8", split})));
    EXPECT_TRUE(weights_of(name) == weights_of("wide")) << split;
  }
  const CommandResult refused =
      train_gpt("sgd", 0, {"model.mup_base_width=8", "optimizer.name=sgd"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.output, HasSubstr("only with adamw and lion: use one of these, or off"));
}

TEST_F(TrainTest, CoordinatesGrowWithWidthInTheStandardParametrisationAndNotInMup) {
  const std::string command = "bench coordinates " + data_directory() + "/";
  const CommandResult result = trireme(command + "gpt.yaml --factors 1,4,12 --set device.type=cpu");

  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("standard parametrisation: activations grow with width"));
  EXPECT_THAT(result.output, HasSubstr("muP: activations do not grow with width"));
  EXPECT_EQ(trireme(command + "gpt.yaml --factors 2,2").exit_code, 2);
  const CommandResult resnet = trireme(command + "resnet.yaml");
  EXPECT_EQ(resnet.exit_code, 2);
  EXPECT_THAT(resnet.output, HasSubstr("only families gpt2 and llama support the transfer"));
}

TEST_F(TrainTest, GenerateContinuesThePromptAndRepeatsItselfForTheSameSeed) {
  ASSERT_RUNS(train_gpt("run", 0));
  const std::string command =
      "generate " + directory() + "/run --prompt rower --tokens 40 --seed 5";

  const CommandResult first = trireme(command), second = trireme(command);

  ASSERT_EQ(first.exit_code, 0) << first.output;
  const std::string text = first.output.substr(first.output.find("rower"));
  EXPECT_EQ(text.size(), 5U + 40U + 1U);
  EXPECT_EQ(first.output, second.output);
}

// A learning rate so high that the loss leaps once and again.
TEST_F(TrainTest, ALossSpikeIsSkippedOnAllLayoutsAndItsSamplesAreLogged) {
  const std::vector<std::string> set = {
      "optimizer.learning_rate=0.5", "lr_schedule.warmup_steps=0", "train.steps=20",
      "train.spike_zscore=1",        "train.spike_window=4",       "reproducibility=layout"};
  std::string expected;
  for (const int ranks : {1, 2, 4}) {
    const std::string name = "spike" + std::to_string(ranks);
    ASSERT_EQ(train_gpt(name, ranks, set).exit_code, 0);

    std::string skipped;
    std::istringstream lines(read_file(directory() + "/" + name + "/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      auto json = nlohmann::ordered_json::parse(line);
      if (!json.contains("skipped")) continue;
      EXPECT_EQ(json.at("samples").size(), 8U) << line;
      EXPECT_EQ(json.erase("timestamp"), 1U) << line;
      skipped += json.dump() + '\n';
    }
    if (ranks == 1) expected = skipped;
    EXPECT_FALSE(skipped.empty());
    EXPECT_EQ(skipped, expected) << ranks << " ranks";
    EXPECT_EQ(weights_of(name), weights_of("spike1")) << ranks << " ranks";
  }
}

}  // namespace
}  // namespace trireme::test
