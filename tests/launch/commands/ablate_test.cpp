// SPDX-License-Identifier: Apache-2.0
// `trireme ablate`: real studies of a tiny model.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "launch/study/ablate/comparison.h"
#include "launch/study/ablate/prefixes.h"
#include "models/config.h"
#include "tests/launch/fixture/run_fixture.h"

namespace trireme::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::DoubleEq;
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
    const json all = report();
    for (const json& one : all["cells"])
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
  // Until step 4 of 6 a rate that decays in the last half equals the constant one.
  const std::string study =
      "set: {lr_schedule.name: constant, reproducibility: run}\nseeds: [1, 2]\nshare_from: 2\n"
      "variants:\n  grid: {lr_schedule.name: [constant]}\n"
      "  list:\n    wsd: {lr_schedule.name: wsd, lr_schedule.decay_fraction: 0.5}\n"
      "    plain: {train.clip_norm: 0}\n";
  const CommandResult result = run_command(ablate(study), 120);

  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("seed 1, steps 1 to 4, base and 1 more: done"),
                                   HasSubstr("lr_schedule=constant has the same values as base"),
                                   HasSubstr("28 steps were trained for 36 steps of cells")));
  const json forked = cell("wsd", 2);
  ASSERT_EQ(forked["legs"].size(), 2U);
  EXPECT_TRUE(forked["legs"][0]["shared"]);
  EXPECT_THAT(forked["legs"][1]["command"].get<std::string>(),
              AllOf(HasSubstr("--set lr_schedule.name=wsd"), HasSubstr("--set run.seed=2")));
  const CommandResult alone = train_gpt(
      "alone", 1, {"lr_schedule.name=wsd", "lr_schedule.decay_fraction=0.5", "run.seed=2"});
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

  // Finished cells are not trained again; another study in the directory is refused.
  const CommandResult again = run_command(ablate(study, "--resume"), 60);
  EXPECT_EQ(again.exit_code, 0) << again.output;
  EXPECT_THAT(again.output, Not(HasSubstr(": done")));
  const CommandResult other = run_command(ablate(study, "--resume --set train.steps=7"), 60);
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
      fmt::format("{1} > {0}/said 2>&1 & study=$!; "
                  "until grep -q \": done\" {0}/said || ! kill -0 $study; do sleep 0.02; done; "
                  "kill -TERM $study; wait $study; code=$?; cat {0}/said; exit $code",
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
  EXPECT_THAT(locked.output, HasSubstr("another process is running the study there"));

  const CommandResult result = run_command(ablate(study, "--resume"), 60);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr(": is there already"));
  const json all = report();
  for (const json& one : all["cells"])
    EXPECT_EQ(one["state"], "done") << one;
}

TEST_F(AblateTest, AStudyContinuesWithoutReaderOrDiskSpaceForItsOutput) {
  const std::string study = "seeds: [1]\nvariants: {list: {plain: {train.clip_norm: 0}}}\n";
  const CommandResult left = run_command(
      fmt::format("{{ {} 2>&1; echo $? > {}/code; }} | head -n 1", ablate(study), directory()), 60);
  EXPECT_EQ(read_file(directory() + "/code"), "0\n") << left.output;
  EXPECT_EQ(cell("plain", 1)["state"], "done");
  EXPECT_TRUE(std::filesystem::exists(out() + "/ablation.html"));

  std::filesystem::remove_all(out());
  const CommandResult full = run_command(ablate(study) + " > /dev/full", 60);
  EXPECT_EQ(full.exit_code, 1);
  EXPECT_THAT(full.output, HasSubstr("standard output cannot be written to: No space left"));
  EXPECT_EQ(cell("plain", 1)["state"], "done");
}

// With three seeds and four variants, seeds are trained one after another, with a different order
// of variants for each.
TEST_F(AblateTest, CellsAreTrainedSeedBySeedInADrawnOrder) {
  const std::string study =
      "seeds: [1, 2, 3]\nshare_from: 0\nset: {train.steps: 1}\n"
      "variants: {grid: {train.clip_norm: [0, 2, 3, 4, 5]}}\n";
  const CommandResult result = run_command(ablate(study), 120);
  ASSERT_EQ(result.exit_code, 0) << result.output;

  std::map<std::string, std::vector<std::string>> orders;
  std::vector<std::string> seeds;
  std::istringstream lines(result.output);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("seed ") || !line.ends_with(": done")) continue;
    const std::string seed = line.substr(0, line.find(','));
    seeds.push_back(seed);
    orders[seed].push_back(line.substr(line.rfind(',')));
  }
  ASSERT_EQ(seeds.size(), 18U) << result.output;
  EXPECT_TRUE(std::ranges::is_sorted(seeds));
  EXPECT_FALSE(orders["seed 1"] == orders["seed 2"] && orders["seed 2"] == orders["seed 3"]);
}

TEST_F(AblateTest, InvalidStudiesAreRefusedAtTheStart) {
  const std::pair<const char*, const char*> bad[] = {
      {"seeds: [1]\nvariants: {grid: {train.clip: [0]}}\n", "train.clip"},
      {"seeds: [1]\nvarants: {}\n",
       "study.yaml:3: varants: is not a key of a study, did you mean variants?"},
      {"seeds: [1, 1]\nvariants: {grid: {train.clip_norm: [0]}}\n", "seed 1 is given twice"},
      {"seeds: [1]\nvariants: {random: {draws: 2, keys: {train.clip_norm: {low: 2, high: 1}}}}\n",
       "low = 2 is not below high = 1"},
      {"seeds: [1]\nvariants: {random: {draws: 2, keys: {train.clip_norm: {low: 0, high: 1, scale: "
       "log}}}}\n",
       "low = 0 has no logarithm"},
      {"seeds: [1]\nvariants: {grid: {train.clip_norm: [1.0]}}\n",
       "every variant has the base's values"},
      {"seeds: [1]\nvariants: {grid: {model.heads: [3]}}\n", "variant heads=3"},
      {"seeds: [1]\nfork_step: 2\nvariants: {grid: {model.hidden: [64]}}\n",
       "model.hidden cannot change after step 2 (fork_step): it decides what the state contains"},
      {"seeds: [1]\nfork_step: 2\nvariants: {grid: {train.global_batch: [16]}}\n",
       "it decides the order of the samples"},
      {"seeds: [1]\nfork_step: 2\nvariants: {grid: {data.workers: [3]}}\n",
       "variants share their data, device and ranks"},
      {"seeds: [1]\nfork_step: 2\nvariants: {grid: {train.initial_weights: [w.safetensors]}}\n",
       "it decides where a run starts or ends"},
      {"seeds: [1]\nfork_step: 6\nvariants: {grid: {train.clip_norm: [0]}}\n",
       "step 6 is not before the end"},
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

// Variants of 100 steps that differ by `settings`, warmed up for 10.
ablate::Study study_of(const std::vector<std::string>& settings) {
  ablate::Study study{.file = "study.yaml",
                      .config = "base.yaml",
                      .overrides = {},
                      .seeds = {1, 2, 3},
                      .variants = {},
                      .halving = {},
                      .traits = {}};
  for (const std::string& one : settings) {
    const std::string text =
        fmt::format("train: {{steps: 100}}\nlr_schedule: {{name: {}, warmup_steps: 10}}\n", one);
    study.variants.push_back(
        {.name = one, .settings = {}, .config = parse_config(text, "test", {})});
  }
  return study;
}

using Spans = std::vector<std::pair<std::vector<std::size_t>, std::int64_t>>;
Spans spans_after(const ablate::Study& study, std::vector<std::size_t> members, std::int64_t from,
                  std::int64_t limit = 100) {
  Spans spans;
  for (const ablate::Segment& segment : ablate::next_segments(study, members, from, limit))
    spans.emplace_back(segment.members, segment.to);
  return spans;
}

TEST(Prefixes, VariantsPartWhereTheirLearningRatesDo) {
  const ablate::Study study = study_of({"constant", "wsd", "cosine"});

  EXPECT_EQ(spans_after(study, {0, 1, 2}, 0), (Spans{{{0, 1, 2}, 11}}));
  EXPECT_EQ(spans_after(study, {0, 1, 2}, 11), (Spans{{{0, 1}, 81}, {{2}, 100}}));
  EXPECT_EQ(spans_after(study, {0, 1}, 81), (Spans{{{0}, 100}, {{1}, 100}}));
  EXPECT_EQ(spans_after(study, {0, 1, 2}, 11, 50), (Spans{{{0, 1}, 50}, {{2}, 50}}));
}

TEST(Prefixes, AForkComesAfterItsStepWhateverDiffers) {
  ablate::Study study = study_of({"constant", "cosine"});
  study.fork_step = 60;

  EXPECT_EQ(spans_after(study, {0, 1}, 0), (Spans{{{0, 1}, 60}}));
  EXPECT_EQ(spans_after(study, {0, 1}, 60), (Spans{{{0}, 100}, {{1}, 100}}));
}

TEST(Halving, TheBestShareStaysAndVariantsWithoutValueAreDropped) {
  ablate::Study study = study_of({"constant", "wsd", "cosine", "linear"});
  study.halving.keep = 0.5;
  const std::vector<ablate::Standing> standings = {
      {.variant = 1, .differences = {0.1, 0.3}},
      {.variant = 2, .differences = {std::nullopt, -0.1}},
      {.variant = 3, .differences = {std::nullopt, std::nullopt}}};

  EXPECT_EQ(ablate::judge(study, 50, standings).stopped, std::vector<std::size_t>{3});
  study.halving.keep = 0.3;
  EXPECT_EQ(ablate::judge(study, 50, standings).stopped, (std::vector<std::size_t>{1, 3}));
}

TEST(Comparison, PairsBySeedAtTheLastCommonStep) {
  ablate::Study study = study_of({"constant", "wsd"});
  study.last_losses = 1;
  ablate::AblationResult result;
  for (const double better : {0.0, 0.5}) {
    for (std::size_t seed = 0; seed < 3; ++seed) {
      ablate::Cell cell{
          .variant = better > 0 ? 1U : 0U, .seed = seed, .state = ablate::CellState::done};
      // The variant takes twice the time, and half of the steps with the last seed.
      const int steps = better > 0 && seed == 2 ? 5 : 10;
      for (int step = 1; step <= steps; ++step)
        cell.curve.training.push_back(
            {.place = {.steps = 1.0 * step,
                       .items = 8.0 * step,
                       .seconds = (1 + 2 * better) * step},
             .loss = 20.0 + 10.0 * static_cast<double>(seed) - step - better});
      result.cells.push_back(cell);
    }
  }

  const std::vector<ablate::Row> rows = ablate::compare(study, result);

  ASSERT_EQ(rows.size(), 2U);
  const auto& [by_steps, by_items, by_time] = rows[1].differences;
  EXPECT_EQ(by_steps->by_seed, (std::vector<double>{-0.5, -0.5, -0.5}));
  EXPECT_EQ(by_items->mean, -0.5);
  EXPECT_EQ(by_steps->interval->high, -0.5);
  EXPECT_EQ(by_steps->verdict(), "better");
  result.cells.back().state = ablate::CellState::stopped;
  EXPECT_EQ(ablate::compare(study, result)[1].differences.front()->verdict(), "");
  EXPECT_EQ(by_time->by_seed, (std::vector<double>{4.5, 4.5, 4.5}));
}

TEST(PairedTest, AgreesWithTablesOfStudentsT) {
  // Two-sided 5 % and 1 %.
  for (const auto& [freedom, five, one] : {std::tuple{1, 12.7062, 63.6567},
                                           {2, 4.30265, 9.92484},
                                           {5, 2.57058, 4.03214},
                                           {30, 2.04227, 2.75000}}) {
    EXPECT_NEAR(studies::t_probability(five, freedom), 0.05, 1e-6) << freedom;
    EXPECT_NEAR(studies::t_probability(-one, freedom), 0.01, 1e-6) << freedom;
  }
  const auto interval = studies::mean_interval(std::vector<double>{1, 2, 6});
  EXPECT_NEAR(interval->low, 3 - 4.30265 * std::sqrt(7.0 / 3), 1e-4);
  EXPECT_FALSE(studies::mean_interval(std::vector<double>{1}));
}

TEST(PairedTest, HolmCountsEveryTestThatWasPlanned) {
  const std::vector<std::optional<double>> p = {0.01, 0.04, std::nullopt, 0.015};

  EXPECT_THAT(studies::holm(p), ElementsAre(DoubleEq(0.04), DoubleEq(0.08), 1.0, DoubleEq(0.045)));
}

// Studies of training losses that are noise alone, with a base that all variants are compared with.
TEST(PairedTest, FindsFalseEffectsInAtMostFivePercentOfStudies) {
  std::mt19937_64 bits(7);
  std::normal_distribution<double> noise;
  constexpr int studies = 4000;
  for (const auto& [seeds, names] :
       {std::pair<std::size_t, std::vector<std::string>>{3, {"constant", "wsd"}},
        {3, {"constant", "wsd", "cosine", "linear"}},
        {8, {"constant", "wsd", "cosine"}}}) {
    ablate::Study study = study_of(names);
    study.seeds.resize(seeds);
    int wrong = 0;
    for (int i = 0; i < studies; ++i) {
      ablate::AblationResult result;
      for (std::size_t variant = 0; variant < names.size(); ++variant)
        for (std::size_t seed = 0; seed < seeds; ++seed)
          result.cells.push_back(
              {.variant = variant,
               .seed = seed,
               .state = ablate::CellState::done,
               .curve = {.training = {{.place = {.steps = 1, .items = 1, .seconds = 1},
                                       .loss = 3 + 0.1 * noise(bits)}}}});
      const std::vector<ablate::Row> rows = ablate::compare(study, result);
      wrong += std::ranges::any_of(std::span(rows).subspan(1), [](const ablate::Row& row) {
        return row.differences.front()->verdict() != "open";
      });
    }
    // Three standard deviations above 5 %.
    EXPECT_LT(wrong, 0.05 * studies + 3 * std::sqrt(0.05 * 0.95 * studies)) << names.size();
    EXPECT_GT(wrong, 0.02 * studies) << "so careful that nothing is ever found";
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
