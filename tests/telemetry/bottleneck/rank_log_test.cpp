// SPDX-License-Identifier: Apache-2.0
// ranks.jsonl: reads back to the same bottleneck analysis, survives kills, and can be continued.
#include "runtime/telemetry/bottleneck/rank_log.h"

#include <gmock/gmock.h>

#include <fstream>

#include "tests/support/command.h"

namespace trireme {
namespace {

using T = TimePart;

using test::read_file;
using testing::HasSubstr;
using testing::SizeIs;

constexpr RunFacts facts{.ranks = 2, .data = 2, .host_ranks = 2, .host_cores = 2};

RunStart start_at(std::int64_t step) {
  return {.step = step, .hosts = {"a", "b"}, .facts = facts};
}

// Rank 1 works 40 ms longer; 4 s of rank 0's time between the steps.
StepMetrics step_number(std::int64_t step) {
  return {.step = step,
          .times = {{T::period, 4100},
                    {T::step, 4000},
                    {T::exposed_comm, 20},
                    {T::straggler, 20},
                    {T::reduce, 30},
                    {T::reduce_comm, 15},
                    {T::between_steps, 100},
                    {T::checkpoint, 60}}};
}

std::vector<Times> times_by_rank() {
  return {{{T::period, 4100}, {T::compute, 3920}, {T::comm_wait, 80}, {T::between, 100}},
          {{T::period, 4100},
           {T::compute, 3960},
           {T::comm_wait, 40},
           {T::between, 100},
           {T::late, 40},
           {T::late_steps, 1}}};
}

class RankLogTest : public testing::Test {
 protected:
  [[nodiscard]] std::string path() const { return directory_.path() + "/ranks.jsonl"; }
  [[nodiscard]] std::vector<std::string> lines() const {
    std::ifstream file(path());
    std::vector<std::string> all;
    for (std::string line; std::getline(file, line);)
      all.push_back(line);
    return all;
  }
  [[nodiscard]] RunFold read_back() const {
    RunFold fold;
    for (const std::string& line : lines())
      fold.line(line);
    return fold;
  }
  static void add_steps(RankLog& log, std::int64_t first, std::int64_t last) {
    for (std::int64_t step = first; step <= last; ++step)
      log.step(step_number(step), times_by_rank());
  }

 private:
  test::TemporaryDirectory directory_;
};

TEST_F(RankLogTest, AWindowLastsTenSecondsOrAShareOfTheRun) {
  RankLog log(path(), start_at(0), false);
  add_steps(log, 1, 7);
  EXPECT_THAT(lines(), SizeIs(3)) << "steps of 4.1 s: two windows of three, and one open";

  add_steps(log, 8, 3000);
  const std::size_t before = lines().size();
  add_steps(log, 3001, 3100);

  EXPECT_LE(lines().size() - before, 8U) << "60 s of three hours are one window";
}

TEST_F(RankLogTest, ReadingBackGivesTheSameVerdict) {
  RankLog log(path(), start_at(0), false);
  add_steps(log, 1, 40);
  log.end({.step = 40,
           .wall_seconds = 170,
           .evaluation_seconds = 5,
           .checkpoint_after_seconds = 1,
           .bubble = BubbleShares{.measured = 0.11, .predicted = 0.09},
           .decoded_again = 0.75,
           .trials = {{.setting = "train.micro_batch=1", .gain = 0.07}}});

  const RunFold fold = read_back();

  ASSERT_EQ(fold.steps(), 40);
  EXPECT_TRUE(fold.ended());
  EXPECT_EQ(fold.facts(), facts);
  EXPECT_EQ(fold.summary().decoded_again, 0.75);
  EXPECT_EQ(end_of_run_text(fold.summary(), fold.facts()),
            end_of_run_text(log.fold().summary(), log.fold().facts()));
  EXPECT_NEAR(seconds_of(fold.summary()).sum(time_use::of_run), 170, 1e-6);
  EXPECT_THAT(end_of_run_text(fold.summary(), fold.facts()), HasSubstr("checkpoints 2.0 %"));
  EXPECT_THAT(end_of_run_text(fold.summary(), fold.facts()),
              HasSubstr("\nsuggestion: train.micro_batch=1 (predicted -7.0 % time)"));
}

TEST_F(RankLogTest, PartsOfEveryWindowAddUpToItsPeriods) {
  RankLog log(path(), start_at(0), false);
  add_steps(log, 1, 3);

  const auto window = std::get<RankWindow>(*parse_rank_line(lines().at(1)));

  EXPECT_EQ(window.first, 1);
  EXPECT_EQ(window.last, 3);
  EXPECT_NEAR(window.totals[T::period], 3 * 4100, 0.1);
  EXPECT_NEAR(window.ranks[1][T::late], 3 * 40, 0.1);
}

TEST_F(RankLogTest, OnlyOneOfTwoJobsInOneFileCounts) {
  RankLog log(path(), start_at(0), false);
  add_steps(log, 1, 40);
  log.end({.step = 40, .wall_seconds = 170});
  RunFold fold;
  for (const std::string& line : lines())
    for (int job = 0; job < 2; ++job)
      fold.line(line);

  EXPECT_EQ(fold.steps(), 40);
  EXPECT_DOUBLE_EQ(fold.summary().wall_seconds, 170);
  fold.end({.step = 40, .wall_seconds = 3});
  EXPECT_NEAR(fold.summary().wall_seconds, 40 * 4.1, 0.1) << "no less than its steps took";
}

TEST_F(RankLogTest, AfterAKillTheWholeLinesCount) {
  {
    RankLog log(path(), start_at(0), false);
    add_steps(log, 1, 6);
  }
  const std::string whole = read_file(path());
  for (const std::size_t torn : {std::size_t{1}, std::size_t{40}, std::size_t{200}}) {
    std::ofstream(path(), std::ios::trunc) << whole.substr(0, whole.size() - torn);

    const RunFold fold = read_back();

    EXPECT_EQ(fold.steps(), torn == 1 ? 6 : 3) << "a line that lacks its newline alone is whole";
    EXPECT_FALSE(fold.ended());
    EXPECT_FALSE(end_of_run_text(fold.summary(), fold.facts()).empty());
  }
}

TEST_F(RankLogTest, ARunThatGoesOnKeepsTheWindowsUpToItsCheckpoint) {
  {
    RankLog log(path(), start_at(0), false);
    add_steps(log, 1, 2);
    log.flush();
    add_steps(log, 3, 6);
  }

  RankLog log(path(), start_at(2), true);
  add_steps(log, 3, 4);
  log.flush();

  EXPECT_THAT(lines(), SizeIs(4));
  EXPECT_EQ(read_back().steps(), 2) << "those of the last start";
  EXPECT_THROW(RankLog(path(), start_at(0), false), Error) << "another run has it";
}

// Three starts of 4.1 s a step, of which the first lost a step, with 60 s in between.
TEST_F(RankLogTest, TheVerdictOfARequeuedRunCoversItsStops) {
  using std::chrono::seconds;
  const std::chrono::system_clock::time_point begin{seconds(1'700'000'000)};
  const auto run = [&](RankLog& log, std::int64_t first, std::int64_t last, double after) {
    for (std::int64_t step = first; step <= last; ++step) {
      StepMetrics metrics = step_number(step);
      const double at = after + 4.1 * static_cast<double>(step - first + 1);
      metrics.time =
          begin + std::chrono::round<std::chrono::milliseconds>(std::chrono::duration<double>(at));
      log.step(metrics, times_by_rank());
    }
    log.flush();
  };
  {
    RankLog log(path(), start_at(0), false);
    run(log, 1, 4, 0);  // until 16.4 s
    run(log, 5, 5, 16.4);
  }
  {
    RankLog log(path(), start_at(4), true);
    run(log, 5, 8, 76.4);  // until 92.8 s
  }
  RankLog log(path(), start_at(8), true);
  run(log, 9, 12, 152.8);
  log.end({.step = 12, .wall_seconds = 17});

  EXPECT_EQ(log.fold().summary().totals.steps, 4);
  for (const RunSummary& whole : {log.fold().whole(), read_back().whole()}) {
    EXPECT_EQ(whole.starts, 3);
    EXPECT_EQ(whole.totals.steps, 12);
    EXPECT_NEAR(whole.wall_seconds, 169.8, 0.01);
    EXPECT_NEAR(seconds_of(whole)[T::stopped], 120, 0.01);
    EXPECT_NEAR(seconds_of(whole).sum(time_use::of_run), whole.wall_seconds, 0.01);
    EXPECT_NEAR(whole.ranks[1][T::late], 12 * 40, 1);
    EXPECT_THAT(bottleneck_text(whole, facts), HasSubstr("stops between starts (70.7 %)"));
  }
}

TEST_F(RankLogTest, LossesOfCutOffStartsStayCounted) {
  RunStart second = start_at(4), third = start_at(2);
  second.lost = {.steps = 3, .seconds = 1.5};
  third.lost = {.steps = 2, .seconds = 0.5};
  {
    RankLog log(path(), start_at(0), false);
    add_steps(log, 1, 4);
    log.flush();
  }
  { const RankLog log(path(), second, true); }

  const RankLog log(path(), third, true);

  ASSERT_THAT(lines(), SizeIs(2));
  const auto start = std::get<RunStart>(*parse_rank_line(lines()[1]));
  EXPECT_EQ(start.step, 2);
  EXPECT_EQ(start.lost.steps, 5);
  EXPECT_EQ(start.lost.seconds, 2);
}

TEST_F(RankLogTest, LinesOfOtherKindsAreSkipped) {
  RunFold fold;
  for (const char* const line :
       {"", "{", "[]", "7", "{\"step\":1,\"loss\":2}",
        "{\"steps\":[3,1],\"split\":{},\"by_rank\":{}}",
        "{\"steps\":[1,2],\"split\":{},\"by_rank\":{\"period_ms\":[1,2],\"compute_ms\":[1]}}",
        "{\"steps\":\"all\"}", "{\"start\":1,\"hosts\":7}"})
    EXPECT_FALSE(fold.line(line)) << line;
  EXPECT_EQ(fold.steps(), 0);
  EXPECT_EQ(fold.summary().wall_seconds, 0);
}

}  // namespace
}  // namespace trireme
