// SPDX-License-Identifier: Apache-2.0
// Runs on several sources at once.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "tests/data/make_megatron.h"
#include "tests/launch/fixture/run_fixture.h"

namespace trireme::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class MixtureTest : public RunTest {
 protected:
  // Three quarters from one text, the rest from another; Megatron-LM tokens from the third step on.
  void SetUp() override {
    std::vector<std::int64_t> tokens;
    for (int i = 0; i < 4000; ++i)
      tokens.push_back(i * i % 97);
    write_file(directory() + "/tokens.idx", megatron_index({1000, 3000}, {0, 1, 2}, 8));
    write_file(directory() + "/tokens.bin", megatron_data<std::uint16_t>(tokens));
  }
  [[nodiscard]] std::vector<std::string> mixed(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> set = {
        "data.path=''",
        fmt::format("data.sources=[{0}/text/train,{0}/text/validation,{1}/tokens]",
                    data_directory(), directory()),
        "data.weights=[3,1,2]",
        "data.source_from=[0,0,2]",
        "reproducibility=layout",
        "lr_schedule.name=constant",
        "checkpoint.every_steps=3"};
    set.insert(set.end(), more.begin(), more.end());
    return set;
  }
  [[nodiscard]] std::vector<double> losses_of(const std::string& name) const {
    std::vector<double> losses;
    for (const LoggedStep& step : steps_of(name))
      losses.push_back(step.loss);
    return losses;
  }
};

TEST_F(MixtureTest, ARunOnMegatronTokensAloneIsReplayed) {
  const CommandResult trained =
      train_gpt("run", 1, {"data.path=" + directory() + "/tokens", "data.validation_path=''"});
  ASSERT_EQ(trained.exit_code, 0) << trained.output;

  const CommandResult again = trireme("replay " + directory() + "/run --step 2");

  EXPECT_EQ(again.exit_code, 0) << again.output;
  EXPECT_THAT(again.output, HasSubstr("the bits of the run"));
}

TEST_F(MixtureTest, HasTheSameBitsOnOneAndTwoRanksAndAfterAStop) {
  const CommandResult one = train_gpt("one", 0, mixed());
  ASSERT_EQ(one.exit_code, 0) << one.output;
  EXPECT_THAT(one.output, HasSubstr("% of the run"));
  const CommandResult two = train_gpt("two", 2, mixed());
  ASSERT_EQ(two.exit_code, 0) << two.output;
  for (const char* const steps : {"train.steps=3", "train.steps=6"}) {
    const CommandResult part = train_gpt("part", 2, mixed({steps}));
    ASSERT_EQ(part.exit_code, 0) << part.output;
  }

  EXPECT_EQ(losses_of("one").size(), 6U);
  EXPECT_EQ(losses_of("one"), losses_of("two"));
  EXPECT_EQ(losses_of("one"), losses_of("part"));
  EXPECT_EQ(weights_of("one"), weights_of("part"));
}

TEST_F(MixtureTest, DoesNotGoOnWithSourcesThatAreMixedInAnotherWay) {
  const CommandResult first = train_gpt("run", 0, mixed({"train.steps=3"}));
  ASSERT_EQ(first.exit_code, 0) << first.output;

  const CommandResult other = train_gpt("run", 0, mixed({"data.weights=[3,1,1]"}));

  EXPECT_EQ(other.exit_code, 2) << other.output;
  EXPECT_THAT(other.output, HasSubstr("mixed in the same way"));
}

TEST_F(MixtureTest, ResumesWithMovedSources) {
  const CommandResult whole = train_gpt("whole", 0, mixed());
  ASSERT_EQ(whole.exit_code, 0) << whole.output;
  const CommandResult first = train_gpt("run", 0, mixed({"train.steps=3"}));
  ASSERT_EQ(first.exit_code, 0) << first.output;
  std::filesystem::create_directories(directory() + "/moved");
  for (const char* const file : {"tokens.idx", "tokens.bin"})
    std::filesystem::rename(directory() + "/" + file, directory() + "/moved/" + file);

  const CommandResult rest = train_gpt(
      "run", 0,
      mixed({fmt::format("data.sources=[{0}/text/train,{0}/text/validation,{1}/moved/tokens]",
                         data_directory(), directory())}));

  ASSERT_EQ(rest.exit_code, 0) << rest.output;
  EXPECT_THAT(rest.output, AllOf(HasSubstr("which do not change what is computed: data.sources"),
                                 Not(HasSubstr("before: data.sources"))));
  EXPECT_EQ(weights_of("run"), weights_of("whole"));
}

// In the quoting of --set in a shell.
std::string sources(const std::string& list) {
  return fmt::format("\"data.sources=[{}]\"", list);
}

TEST_F(MixtureTest, ReportsTheValidationLossOfEachSourceByNameWithTheSameBitsOnAnyRanks) {
  const std::string data = data_directory();
  const std::string each = sources(
      fmt::format("{{name: book, path: {0}/text/train, validation_path: {0}/text/validation, "
                  "test_path: {0}/text/train}}, "
                  "{{name: all, path: {0}/text/validation, validation_path: {0}/text/train}}, "
                  "{1}/tokens",
                  data, directory()));
  const std::vector<std::string> set =
      mixed({each, "data.validation_path=''", "train.eval_every=3", "train.eval_batches=3"});
  std::vector<std::string> evaluations;
  for (const int ranks : {1, 2}) {
    const std::string name = fmt::format("ranks{}", ranks);
    const CommandResult result = train_gpt(name, ranks, set);
    ASSERT_EQ(result.exit_code, 0) << result.output;
    EXPECT_THAT(result.output, AllOf(HasSubstr("validation of book: loss "),
                                     HasSubstr("validation of all: loss ")));
    EXPECT_THAT(read_file(directory() + "/" + name + "/console.log"),
                HasSubstr("validation of all: loss "));
    std::string all;
    std::istringstream lines(read_file(directory() + "/" + name + "/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const auto begin = line.find("\"validation_loss\""), end = line.find("\"evaluation_ms\"");
      if (begin != std::string::npos) all += line.substr(begin, end - begin) + "\n";
    }
    evaluations.push_back(all);
  }
  EXPECT_EQ(evaluations[0], evaluations[1]);
  EXPECT_THAT(evaluations[0], HasSubstr("\"validation\":{\"book\":{\"loss\":"));
  EXPECT_EQ(std::ranges::count(evaluations[0], '\n'), 2) << evaluations[0];

  // Each as in a separate evaluation.
  const std::string run = fmt::format("eval {}/ranks1", directory());
  const CommandResult whole = trireme(run);
  ASSERT_EQ(whole.exit_code, 0) << whole.output;
  const CommandResult alone = trireme(fmt::format("{} --data {}/text/validation", run, data), 2);
  ASSERT_EQ(alone.exit_code, 0) << alone.output;
  const auto at = alone.output.find("loss      ") + 10;
  EXPECT_THAT(whole.output, HasSubstr("book: loss " + alone.output.substr(at, 8)));
  const CommandResult tested = trireme(run + " --split test");
  EXPECT_EQ(tested.exit_code, 0) << tested.output;
  EXPECT_THAT(tested.output, AllOf(HasSubstr("book: loss "), Not(HasSubstr("all: loss "))));
}

TEST_F(MixtureTest, RefusesValidationSetsThatDoNotBelongToTheirSources) {
  const auto refused = [&](const std::string& list, int code, const std::string& part,
                           const std::string& more = "data.validation_path=''") {
    const CommandResult result = train_gpt(
        "none", 0, mixed({sources(list), "data.weights=[]", "data.source_from=[]", more}));
    EXPECT_EQ(result.exit_code, code) << result.output;
    EXPECT_THAT(result.output, HasSubstr(part));
  };
  const std::string book =
      fmt::format("path: {0}/text/train, validation_path: {0}/text/validation", data_directory());
  refused(fmt::format("{{name: a, {0}}}, {{name: a, {0}}}", book), 2, "0 and 1 are both called a");
  refused(fmt::format("{{{0}}}, {{{0}}}", book), 2, "give each a name of its own");
  refused(
      fmt::format("{{name: a, path: {0}/text/train, validation_path: {0}/none}}", data_directory()),
      3, data_directory() + "/none");
  refused(fmt::format("{{name: a, {}}}", book), 2, "both say what to evaluate on",
          "data.validation_path=somewhere");
  refused(fmt::format("{{name: a, {}, inputs: [x]}}", book), 2, "data.sources[0].inputs");
  ASSERT_EQ(trireme(fmt::format("data pack-images --quiet --out {0}/images --labels {1}/labels_idx "
                                "--classes 3 {1}/images_idx",
                                directory(), data_directory()))
                .exit_code,
            0);
  refused(fmt::format("{{name: a, path: {}/text/train, validation_path: {}/images}}",
                      data_directory(), directory()),
          3, "holds images");
}

TEST_F(MixtureTest, RefusesInvalidMixturesByKey) {
  const auto refused = [&](const std::vector<std::string>& more, int code,
                           const std::string& part) {
    const CommandResult result = train_gpt("none", 0, mixed(more));
    EXPECT_EQ(result.exit_code, code) << result.output;
    EXPECT_THAT(result.output, HasSubstr(part));
  };
  refused({"data.weights=[1,2]"}, 2, "data.weights=[1,2]: has 2 values for 3 data.sources");
  refused({"data.source_until=[0,0,2]"}, 2, "would leave the mixture at step 2 and join it at 2");
  refused({"data.path=" + data_directory() + "/text/train"}, 2, "data.sources");
  refused({"data.last_batch=pad"}, 2, "data.last_batch");
  refused({"data.source_until=[1,1,5]"}, 2, "no source is in the mixture at step 1");
  refused(
      {"data.sources=[" + data_directory() + "/none]", "data.weights=[]", "data.source_from=[]"}, 3,
      "no such file or directory");
}

}  // namespace
}  // namespace trireme::test
