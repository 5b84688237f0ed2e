// SPDX-License-Identifier: Apache-2.0
// Runs that trace steps, and the output of `trireme trace summary` for their files.
#include <gmock/gmock.h>

#include <filesystem>
#include <regex>

#include "tests/launch/fixture/run_fixture.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class TraceRuns : public RunTest {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return directory() + "/" + name; }
  static void expect_refusal(const std::string& place, int code, const std::string& message) {
    const CommandResult result = trireme("trace summary " + place);
    EXPECT_EQ(result.exit_code, code) << result.output;
    EXPECT_THAT(result.output, AllOf(HasSubstr(place), HasSubstr(message)));
  }
};

TEST_F(TraceRuns, HaveTheSameBitsAndFilesOfAllRanks) {
  const std::vector<std::string> pipeline = {"parallel.pipeline=2", "parallel.zero=1"};
  std::vector<std::string> traced = pipeline;
  traced.emplace_back("telemetry.trace=3-4");
  ASSERT_EQ(train_gpt("plain", 4, pipeline).exit_code, 0);

  const CommandResult run = train_gpt("traced", 4, traced);

  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("steps 3 to 4 of 4 rank(s) are in"));
  const auto plain = steps_of("plain"), with = steps_of("traced");
  ASSERT_EQ(plain.size(), with.size());
  for (std::size_t i = 0; i < plain.size(); ++i)
    EXPECT_EQ(plain[i].loss, with[i].loss);
  EXPECT_EQ(weights_of("plain"), weights_of("traced"));
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_TRUE(fs::exists(path("traced/trace/steps_3-4.kineto/rank_") + std::to_string(rank) +
                           ".pt.trace.json.gz"));

  for (const std::string& place : {path("traced"), path("traced/trace/steps_3-4.json.gz")}) {
    const CommandResult summary = trireme("trace summary --gaps 7 " + place);
    EXPECT_EQ(summary.exit_code, 0) << summary.output;
    EXPECT_THAT(
        summary.output,
        AllOf(HasSubstr("steps 3 to 4 on 4 cpu rank(s) (data 2 x tensor 1 x pipeline 2)"),
              HasSubstr("rank 3 on "), HasSubstr("the 7 largest gaps"), HasSubstr("  7. ")));
  }

  // A new run in the directory removes the traces.
  std::string again = "train " + path("traced/config.user.yaml") +
                      " --overwrite --set telemetry.trace='' --set run.directory=" + path("traced");
  const CommandResult overwritten = trireme(again, 4);
  EXPECT_EQ(overwritten.exit_code, 0) << overwritten.output;
  EXPECT_FALSE(fs::exists(path("traced/trace")));
}

TEST_F(TraceRuns, OneStepOfOneRankAndTheLastOneToo) {
  const CommandResult first = train_gpt("one", 0, {"telemetry.trace=1"});
  ASSERT_EQ(first.exit_code, 0) << first.output;
  EXPECT_TRUE(fs::exists(path("one/trace/step_1.json.gz")));
  const auto steps = static_cast<int>(steps_of("one").size());

  const std::string last = "telemetry.trace=" + std::to_string(steps);
  ASSERT_EQ(train_gpt("last", 0, {last}).exit_code, 0);
  EXPECT_TRUE(fs::exists(path("last/trace/step_") + std::to_string(steps) + ".json.gz"));
  const CommandResult summary = trireme("trace summary " + path("last"));
  EXPECT_EQ(summary.exit_code, 0);
  EXPECT_THAT(summary.output, HasSubstr("on 1 cpu rank(s)"));
}

TEST_F(TraceRuns, OfARunThatEndsInAnErrorHaveTheStepsUpToIt) {
  const CommandResult run =
      train_gpt("ended", 2,
                {"optimizer.learning_rate=1000", "train.clip_norm=0", "train.steps=40",
                 "optimizer.name=sgd", "optimizer.momentum=0.9", "telemetry.trace=2-40"});

  EXPECT_EQ(run.exit_code, 6) << run.output;
  EXPECT_THAT(run.output, testing::ContainsRegex("steps 2 to [0-9]+ of 2 rank\\(s\\) are in"));
  // The error is still the last message.
  EXPECT_GT(run.output.rfind("train.non_finite_limit"), run.output.rfind("rank(s) are in"));
  const std::regex error(R"(step (\d+): the loss is \S+ and the gradient norm \S+ for \d+ step)");
  std::smatch found;
  ASSERT_TRUE(std::regex_search(run.output, found, error)) << run.output;
  const long last = std::stol(found[1]);
  const CommandResult summary = trireme("trace summary " + path("ended"));
  EXPECT_EQ(summary.exit_code, 0) << summary.output;
  EXPECT_THAT(summary.output, AllOf(testing::ContainsRegex("steps 2 to [0-9]+ on 2 cpu rank"),
                                    HasSubstr("rank 1 on "), HasSubstr("largest gaps")));
  // The step of the error is traced, and at most the next one.
  const std::string until = "steps 2 to ";
  const auto to = std::stol(summary.output.substr(summary.output.find(until) + until.size()));
  EXPECT_GE(to, last);
  EXPECT_LE(to, last + 2);
}

TEST_F(TraceRuns, InvalidFilesAreRefused) {
  ASSERT_EQ(train_gpt("plain", 0).exit_code, 0);
  expect_refusal(path("plain"), 2, "has no trace; a run writes one with --set telemetry.trace=");
  expect_refusal(path("nothing"), 2, "name a run directory or a trace");
  ASSERT_EQ(train_gpt("traced", 2, {"telemetry.trace=3"}).exit_code, 0);
  const std::string file = path("traced/trace/step_3.json.gz"), whole = read_file(file);
  expect_refusal(path("traced/trace/step_3.kineto/rank_0.pt.trace.json.gz"), 3, "is not a trace");
  expect_refusal(path("traced/metrics.jsonl"), 3, "is not a trace");
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{5}, whole.size() / 2, whole.size() - 1}) {
    write_file(path("torn.json.gz"), whole.substr(0, bytes));
    const CommandResult result = trireme("trace summary " + path("torn.json.gz"));
    EXPECT_EQ(result.exit_code, 3) << bytes << "\n" << result.output;
  }
  std::string damaged = whole;
  damaged[whole.size() / 2] = static_cast<char>(damaged[whole.size() / 2] ^ 0x40);
  write_file(path("damaged.json.gz"), damaged);
  expect_refusal(path("damaged.json.gz"), 3, "is damaged or ends too early");
  write_file(path("later.json"),
             "{\"otherData\":{\"trireme_trace\":{\"version\":99}},\n\"traceEvents\":[\n]}\n");
  expect_refusal(path("later.json"), 3, "is a trace of version 99, but this program reads");
}

}  // namespace
}  // namespace trireme::test
