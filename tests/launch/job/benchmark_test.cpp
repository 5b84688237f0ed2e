// SPDX-License-Identifier: Apache-2.0
// What MLPerf's benchmarks need: seeds from the clock, evaluations by samples, and their log.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "tests/launch/fixture/fields_fixture.h"
#include "tests/launch/fixture/layout_fixture.h"

namespace trireme::test {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;

class BenchmarkTest : public LayoutTest {
 protected:
  [[nodiscard]] std::string file(const std::string& name) const { return directory() + "/" + name; }
  // run.seed of config.yaml.
  [[nodiscard]] std::string seed_of(const std::string& name) const {
    const std::string text = read_file(file(name + "/config.yaml"));
    std::smatch found;
    return std::regex_search(text, found, std::regex("\n  seed: (\\S+)")) ? found[1].str() : "";
  }
};

TEST_F(BenchmarkTest, ADrawnSeedIsStatedAndRepeatsTheRun) {
  const Settings set{"run.seed=clock", "reproducibility=layout"};
  const CommandResult first = train_gpt("one", 2, set), other = train_gpt("two", 2, set);
  ASSERT_EQ(first.exit_code, 0) << first.output;
  ASSERT_EQ(other.exit_code, 0) << other.output;
  const std::string seed = seed_of("one");
  EXPECT_NE(seed, seed_of("two"));
  EXPECT_THAT(first.output, HasSubstr("; seed " + seed + "\n"));
  EXPECT_THAT(read_file(file("one/certificate.jsonl")), HasSubstr("\"seed\":" + seed + ","));
  EXPECT_EQ(trireme("replay " + file("one")).exit_code, 0);

  ASSERT_EQ(train_gpt("again", 1, {"run.seed=" + seed, "reproducibility=layout"}).exit_code, 0);
  EXPECT_TRUE(weights_of("again") == weights_of("one"));
  EXPECT_FALSE(weights_of("two") == weights_of("one"));
}

TEST_F(BenchmarkTest, AResumedRunKeepsItsDrawnSeedAndAReplacedOneDoesNot) {
  const CommandResult first = trireme(
      fmt::format("train {}/gpt.yaml --until 2 --set run.seed=clock --set checkpoint.every_steps=2 "
                  "--set train.steps=4 --set run.directory={}",
                  data_directory(), file("run")));
  ASSERT_EQ(first.exit_code, 0) << first.output;
  const std::string seed = seed_of("run");
  const CommandResult resumed = trireme("train " + file("run"));
  EXPECT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_THAT(resumed.output, HasSubstr("going on after step 2"));
  EXPECT_EQ(steps_of("run").size(), 4U);
  EXPECT_EQ(seed_of("run"), seed);
  const CommandResult step = trireme("replay " + file("run") + " --step 3");
  EXPECT_EQ(step.exit_code, 0) << step.output;

  EXPECT_EQ(trireme("train " + file("run") + " --overwrite").exit_code, 0);
  EXPECT_NE(seed_of("run"), seed);
}

TEST_F(BenchmarkTest, EvaluationsFollowTheSamples) {
  ASSERT_EQ(train_gpt("run", 2, {"train.eval_every_samples=20", "train.eval_batches=1"}).exit_code,
            0);
  std::vector<std::int64_t> steps;
  std::istringstream lines(read_file(file("run/metrics.jsonl")));
  for (std::string line; std::getline(lines, line);) {
    const auto object = nlohmann::json::parse(line);
    if (object.contains("validation_loss")) steps.push_back(object["step"]);
  }
  EXPECT_THAT(steps, ElementsAre(3, 5, 6));  // of 6 steps of 8 samples
}

// A benchmark's tiny run and what MLPerf's checker says of its log, which may break only these
// rules, of its size.
struct Benchmark {
  std::string name, config, usage, ruleset;
  Settings set;
  std::set<std::string> broken_when_closed, broken_when_open{};
};

class MllogTest : public BenchmarkTest {
 protected:
  static void SetUpTestSuite() {
    RunTest::SetUpTestSuite();
    const std::string data = data_directory();
    write_field_models(data);
    std::string text;
    for (int i = 0; i < 16'000; ++i)
      text += "ab";
    write_file(data + "/ab.txt", text);
    const CommandResult packed = trireme(
        fmt::format("data pack-text --quiet --out {0}/ab --validation 0.8 {0}/ab.txt", data));
    ASSERT_EQ(packed.exit_code, 0) << packed.output;
  }
  static std::vector<Benchmark> benchmarks() {
    const std::string text = data_directory() + "/ab";
    return {{"cosmoflow",
             "cosmoflow.yaml",
             "hpc",
             "3.0.0",
             {"train.steps=24", "data.target_mean=[0,0,0]", "data.target_std=[100,100,100]",
              "lr_schedule.name=multistep", "lr_schedule.factors=[12:0.25]",
              "lr_schedule.warmup_steps=3", "\"train.stop_at={metric: mae, below: 0.124}\""},
             {}},
            {"deepcam",
             "deepcam.yaml",
             "hpc",
             "3.0.0",
             {"train.steps=60", "data.target=calm", "optimizer.epsilon=1e-6",
              "optimizer.learning_rate=5e-2", "lr_schedule.name=cosine",
              "\"train.stop_at={metric: mean_iou, above: 0.82}\""},
             {"train_samples", "eval_samples"}},
            {"llama31_8b",
             "gpt.yaml",
             "training",
             "6.1.0",
             {"model.family=llama", "model.context=24", "data.path=" + text + "/train",
              "data.validation_path=" + text + "/validation", "train.steps=1200000",
              "train.eval_every_samples=80", "train.eval_batches=128", "optimizer.betas=[0.9,0.95]",
              "optimizer.epsilon=1e-5", "\"train.stop_at={metric: eval_loss, below: 0.9}\""},
             {"max_sequence_length"}},
            {"gpt_oss_20b",
             "gpt.yaml",
             "training",
             "6.1.0",
             {"model.family=gpt_oss", "model.experts=4", "model.context=24",
              "data.path=" + text + "/train", "data.validation_path=" + text + "/validation",
              "train.steps=1200000", "train.eval_every_samples=80", "train.eval_batches=128",
              "optimizer.betas=[0.9,0.95]", "optimizer.epsilon=1e-5",
              "\"train.stop_at={metric: eval_loss, below: 0.9}\""},
             {"max_sequence_length"},
             {"max_sequence_length"}},
            {"unet3d",
             "unet_of_mlperf.yaml",
             "training",
             "4.0.0",
             // Scored on the samples that it learns, so that every machine's sums reach the score.
             {"data.validation_files=[" + data_directory() + "/fields/training]", "model.filters=8",
              "model.widest=8", "train.steps=400", "train.eval_every=10", "optimizer.name=adamw",
              "optimizer.learning_rate=1e-2", "lr_schedule.warmup_steps=3",
              "\"train.stop_at={metric: mean_dice, above: 0.908}\""},
             {"train_samples", "eval_samples"}}};
  }
  CommandResult run(const Benchmark& benchmark, const std::string& name, int ranks,
                    const Settings& more = {}) {
    Settings set = benchmark.set;
    set.insert(set.end(), {"run.seed=clock", "telemetry.mllog=mllog.txt",
                           "\"telemetry.mllog_submitter=[Lab,M1,open,onprem]\"",
                           "telemetry.mllog_benchmark=" + benchmark.name});
    set.insert(set.end(), more.begin(), more.end());
    return train(benchmark.config, name, ranks, set);
  }
  CommandResult check(const Benchmark& benchmark, const std::string& name) {
    return run_command(fmt::format(
        "python3 -m mlperf_logging.compliance_checker --usage {} --ruleset {} --log_output "
        "{}/checker.log {}/mllog.txt 2>&1",
        benchmark.usage, benchmark.ruleset, directory(), file(name)));
  }
  // The rules that the log breaks.
  std::set<std::string> broken(const Benchmark& benchmark, const std::string& name) {
    const CommandResult verdict = check(benchmark, name);
    const std::string& text = verdict.output;
    std::set<std::string> rules;
    const std::regex failure(
        "CHECK for '([^']*)' failed|occurrence of '([^']*)'|Failed checks for (\\S+)");
    for (std::sregex_iterator at(text.begin(), text.end(), failure), end; at != end; ++at)
      rules.insert((*at)[1].str() + (*at)[2].str() + (*at)[3].str());
    EXPECT_EQ(verdict.exit_code == 0, rules.empty()) << text;
    return rules;
  }
  [[nodiscard]] std::size_t count(const std::string& name, const std::string& part) const {
    const std::string text = read_file(file(name + "/mllog.txt"));
    std::size_t found = 0;
    for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1))
      ++found;
    return found;
  }
  static bool has_checker() {
    return run_command("python3 -c \"import mlperf_logging\" 2>&1").exit_code == 0;
  }
};

TEST_F(MllogTest, TheCheckerAcceptsALogOfEveryBenchmark) {
  if (!has_checker()) GTEST_SKIP() << "python3 has no mlperf_logging: pip install mlperf-logging";
  for (const Benchmark& benchmark : benchmarks()) {
    SCOPED_TRACE(benchmark.name);
    const std::string open = benchmark.name + "_open", closed = benchmark.name + "_closed";
    const CommandResult result = run(benchmark, open, 2);
    ASSERT_EQ(result.exit_code, 0) << result.output;
    EXPECT_EQ(broken(benchmark, open), benchmark.broken_when_open);
    EXPECT_EQ(count(open, "\"status\":\"success\""), 1U) << result.output;

    ASSERT_EQ(run(benchmark, closed, 1, {"\"telemetry.mllog_submitter=[Lab,M1,closed,cloud]\""})
                  .exit_code,
              0);
    EXPECT_EQ(broken(benchmark, closed), benchmark.broken_when_closed);
  }
}

TEST_F(MllogTest, AResumedRunAppendsAndItsClockRunsOn) {
  const Benchmark benchmark = benchmarks().front();
  const Settings saves{"checkpoint.every_steps=1", "\"train.stop_at={metric: mae, below: 1e-9}\"",
                       "train.steps=8"};
  Settings stopping = saves;
  stopping.emplace_back("run.deadline_minutes=0.00001");
  EXPECT_EQ(run(benchmark, "run", 2, stopping).exit_code, 75);
  EXPECT_EQ(count("run", "\"run_stop\""), 0U);
  ASSERT_EQ(run(benchmark, "run", 1, saves).exit_code, 0);
  for (const char* const once :
       {"\"run_start\"", "\"init_stop\"", "\"seed\"", "\"run_stop\"", "\"status\":\"aborted\""})
    EXPECT_EQ(count("run", once), 1U) << once;
  EXPECT_THAT(count("run", "\"block_start\""), AnyOf(4U, 5U))
      << "one more if it stopped in a block";
  EXPECT_EQ(count("run", "\"block_stop\""), 4U);
  // Done: nothing is added.
  ASSERT_EQ(run(benchmark, "run", 1, saves).exit_code, 0);
  EXPECT_EQ(count("run", "\"run_stop\""), 1U);
  // Replaced: another log.
  const CommandResult other = trireme("train " + file("run") + " --overwrite");
  EXPECT_EQ(other.exit_code, 0) << other.output;
  EXPECT_EQ(count("run", "\"run_start\""), 1U);
  EXPECT_EQ(count("run", "\"block_start\""), 4U);
}

TEST_F(MllogTest, LinesThatAScriptWroteStay) {
  std::filesystem::create_directories(file("run"));
  write_file(file("run/mllog.txt"), ":::MLLOG {\"key\": \"cache_clear\", \"value\": true}\n");
  ASSERT_EQ(run(benchmarks().front(), "run", 1).exit_code, 0);
  EXPECT_EQ(count("run", "cache_clear"), 1U);
  EXPECT_EQ(count("run", "\"run_start\""), 1U);
}

}  // namespace
}  // namespace trireme::test
