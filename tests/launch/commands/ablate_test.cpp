// SPDX-License-Identifier: Apache-2.0
// `trireme ablate`: real studies of a tiny model.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/launch/fixture/run_fixture.h"

namespace trireme::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class AblateTest : public RunTest {
 protected:
  [[nodiscard]] std::string out() const { return directory() + "/study"; }
  // `text` without its base, on data of the fixture.
  [[nodiscard]] std::string ablate(const std::string& text, const std::string& options = "") const {
    const std::string file = directory() + "/study.yaml";
    write_file(file, fmt::format("base: {}/gpt.yaml\n{}", data_directory(), text));
    return fmt::format("{} ablate {} --out {} {}", TRIREME_BINARY, file, out(), options);
  }
  [[nodiscard]] json report() const { return json::parse(read_file(out() + "/ablation.json")); }
  [[nodiscard]] json cell(const std::string& variant, int seed) const {
    for (const json& one : report()["cells"])
      if (one["variant"] == variant && one["seed"] == seed) return one;
    ADD_FAILURE() << variant << ", " << seed;
    return {};
  }
  [[nodiscard]] static std::string run_of(const json& cell) {
    return cell["legs"].back()["directory"];
  }
  // Losses and learning rates of a run, as written.
  [[nodiscard]] static std::vector<std::string> results_of(const std::string& run) {
    std::istringstream lines(read_file(run + "/metrics.jsonl"));
    std::vector<std::string> results;
    for (std::string text; std::getline(lines, text);) {
      const json line = json::parse(text);
      if (line.contains("loss"))
        results.push_back(fmt::format("{} {} {}", line["step"].dump(), line["loss"].dump(),
                                      line["grad_norm"].dump()));
    }
    return results;
  }
};

TEST_F(AblateTest, AnIdenticalPrefixIsTrainedOnceAndChangesNoBit) {
  // Up to step 4 of 6 a rate that decays in the last third is the constant one.
  const std::string study =
      "set: {lr_schedule.name: constant, reproducibility: run}\nseeds: [1, 2]\nshare_from: 2\n"
      "variants:\n  grid: {lr_schedule.name: [constant, wsd]}\n  list: {plain: {train.clip_norm: "
      "0}}\n";
  const CommandResult result =
      run_command(ablate(study, "--set lr_schedule.decay_fraction=0.34"), 120);

  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("seed 1, steps 1 to 4, shared by 2 variants: done"),
                                   HasSubstr("lr_schedule=constant has the values of base"),
                                   HasSubstr("28 steps were trained for 36 steps of cells")));
  const json forked = cell("lr_schedule=wsd", 2);
  ASSERT_EQ(forked["legs"].size(), 2U);
  EXPECT_TRUE(forked["legs"][0]["shared"]);
  EXPECT_THAT(forked["legs"][1]["command"].get<std::string>(),
              AllOf(HasSubstr("--set lr_schedule.name=wsd"), HasSubstr("--set run.seed=2")));
  const CommandResult alone = train_gpt(
      "alone", 1, {"lr_schedule.name=wsd", "lr_schedule.decay_fraction=0.34", "run.seed=2"});
  ASSERT_EQ(alone.exit_code, 0) << alone.output;
  EXPECT_EQ(results_of(run_of(forked)), results_of(directory() + "/alone"));
  EXPECT_EQ(read_file(run_of(forked) + "/weights.safetensors"),
            read_file(directory() + "/alone/weights.safetensors"));

  const json rows = report()["variants"];
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0]["variant"], "base");
  for (const json& row : {rows[1], rows[2]}) {
    const json& difference = row["differences"]["steps"];
    EXPECT_EQ(difference["by_seed"].size(), 2U) << row;
    EXPECT_LE(difference["interval"][0], difference["mean"]);
  }
  EXPECT_TRUE(std::filesystem::exists(out() + "/ablation.html"));

  // What is there is not run again; another study there is refused.
  const CommandResult again =
      run_command(ablate(study, "--set lr_schedule.decay_fraction=0.34 --resume"), 60);
  EXPECT_EQ(again.exit_code, 0) << again.output;
  EXPECT_THAT(again.output, Not(HasSubstr(": done")));
  const CommandResult other = run_command(ablate(study, "--resume"), 60);
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.output, HasSubstr("holds another study"));
}

TEST_F(AblateTest, AtAForkEveryVariantGoesOnFromTheBasesRun) {
  const CommandResult result = run_command(
      ablate("seeds: [3]\nfork_step: 3\nvariants: {grid: {optimizer.learning_rate: [1e-3]}}\n"),
      60);

  ASSERT_EQ(result.exit_code, 0) << result.output;
  const auto base = results_of(run_of(cell("base", 3)));
  const auto forked = results_of(run_of(cell("learning_rate=1e-3", 3)));
  ASSERT_EQ(base.size(), 6U);
  ASSERT_EQ(forked.size(), 6U);
  // The loss of step 4 is that of the weights after step 3.
  EXPECT_TRUE(std::equal(base.begin(), base.begin() + 4, forked.begin()));
  EXPECT_NE(base[5], forked[5]);
}

TEST_F(AblateTest, ACellThatFailsLeavesTheOthersToTheirEnd) {
  const CommandResult result =
      run_command(ablate("seeds: [1]\nvariants: {list: {elsewhere: {data.path: nowhere}}}\n"), 60);

  EXPECT_EQ(result.exit_code, 1) << result.output;
  EXPECT_THAT(result.output, HasSubstr("failed: elsewhere, seed 1: code "));
  const json failed = cell("elsewhere", 1);
  EXPECT_EQ(failed["state"], "failed");
  EXPECT_THAT(read_file(failed["legs"][0]["log"]), HasSubstr("nowhere"));
  EXPECT_EQ(cell("base", 1)["state"], "done");
}

TEST_F(AblateTest, LosingVariantsAreStoppedAtARung) {
  const CommandResult result = run_command(
      ablate("seeds: [1]\nmetric: training_loss\nlast_losses: 1\nhalving: {at: [3], keep: 0.5}\n"
             "variants: {grid: {optimizer.learning_rate: [1e-2, 1e-9]}}\n"),
      60);

  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(cell("learning_rate=1e-9", 1)["state"], "stopped");
  EXPECT_EQ(cell("learning_rate=1e-9", 1)["steps"], 3);
  EXPECT_EQ(cell("learning_rate=1e-2", 1)["steps"], 6);
  EXPECT_EQ(cell("base", 1)["steps"], 6);
}

TEST_F(AblateTest, AStudyThatWasInterruptedGoesOn) {
  const std::string study = "seeds: [1, 2, 3]\nvariants: {list: {plain: {train.clip_norm: 0}}}\n";
  const CommandResult stopped = run_command(
      fmt::format("mkfifo {0}/said; {1} > {0}/said & study=$!; "
                  "sed -u '/: done/q' {0}/said; kill -TERM $study; cat {0}/said; wait $study",
                  directory(), ablate(study)),
      60);
  EXPECT_EQ(stopped.exit_code, 75) << stopped.output;

  const CommandResult locked = [&] {
    const int file = ::open((out() + "/study.lock").c_str(), O_RDWR | O_CLOEXEC);
    EXPECT_EQ(::flock(file, LOCK_EX), 0);
    const CommandResult refused = run_command(ablate(study, "--resume"), 60);
    ::close(file);
    return refused;
  }();
  EXPECT_EQ(locked.exit_code, 2);
  EXPECT_THAT(locked.output, HasSubstr("another process runs the study there"));

  const CommandResult result = run_command(ablate(study, "--resume"), 60);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr(": is there already"));
  for (const json& one : report()["cells"])
    EXPECT_EQ(one["state"], "done") << one;
}

TEST_F(AblateTest, WhatIsNoStudyIsRefusedBeforeAnythingIsStarted) {
  const std::pair<const char*, const char*> bad[] = {
      {"seeds: [1]\nvariants: {grid: {train.clip: [0]}}\n", "train.clip"},
      {"seeds: [1]\nvarants: {}\n",
       "study.yaml:3: varants: is no key of a study, did you mean variants?"},
      {"seeds: [1, 1]\nvariants: {grid: {train.clip_norm: [0]}}\n", "seed 1 stands there twice"},
      {"seeds: [1]\nvariants: {random: {draws: 2, keys: {train.clip_norm: {low: 2, high: 1}}}}\n",
       "low = 2 is not below high = 1"},
      {"seeds: [1]\nvariants: {random: {draws: 2, keys: {train.clip_norm: {low: 0, high: 1, scale: "
       "log}}}}\n",
       "low = 0 has no logarithm"},
      {"seeds: [1]\nvariants: {grid: {train.clip_norm: [1.0]}}\n",
       "every variant has the base's values"},
      {"seeds: [1]\nvariants: {grid: {model.heads: [3]}}\n", "variant heads=3"},
      {"seeds: [1]\nfork_step: 2\nvariants: {grid: {model.hidden: [64]}}\n",
       "model.hidden cannot change after step 2, as fork_step says: it decides what the state "
       "holds"},
      {"seeds: [1]\nfork_step: 2\nvariants: {grid: {train.global_batch: [16]}}\n",
       "it decides which sample stands where"},
      {"seeds: [1]\nfork_step: 6\nvariants: {grid: {train.clip_norm: [0]}}\n",
       "is no step before the end"},
      {"seeds: [1]\nhalving: {at: [3]}\nvariants: {grid: {train.clip_norm: [0]}}\n",
       "is not evaluated at step 3"},
      {"seeds: [1]\nvariants: {grid: {run.seed: [4]}}\n", "list the seeds under `seeds`"}};
  for (const auto& [text, message] : bad) {
    const CommandResult result = run_command(ablate(text), 20);
    EXPECT_EQ(result.exit_code, 2) << text << result.output;
    EXPECT_THAT(result.output, HasSubstr(message)) << text;
    EXPECT_FALSE(std::filesystem::exists(out())) << text;
  }
}

TEST_F(AblateTest, TrainingStopsAtAStepAndGoesOnToTheSameBits) {
  const auto train = [&](const std::string& run, const std::string& options) {
    return trireme(fmt::format("train {}/gpt.yaml --set run.directory={}/{} {}", data_directory(),
                               directory(), run, options),
                   1);
  };
  const CommandResult part = train("parts", "--until 4");
  EXPECT_EQ(part.exit_code, 0) << part.output;
  EXPECT_FALSE(std::filesystem::exists(directory() + "/parts/weights.safetensors"));
  const CommandResult same = train("parts", "--until 4");
  EXPECT_THAT(same.output, HasSubstr("nothing is left to do"));
  ASSERT_EQ(train("parts", "").exit_code, 0);
  ASSERT_EQ(train("whole", "").exit_code, 0);
  EXPECT_EQ(read_file(directory() + "/parts/weights.safetensors"),
            read_file(directory() + "/whole/weights.safetensors"));
  EXPECT_THAT(train("beyond", "--until 7").output, HasSubstr("is beyond train.steps = 6"));
}

}  // namespace
}  // namespace trireme::test
