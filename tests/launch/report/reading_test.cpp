// SPDX-License-Identifier: Apache-2.0
// Reading run directories in whatever state they are.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "launch/observe/report/run_data.h"
#include "launch/observe/report/text_report.h"
#include "runtime/base/environment.h"
#include "runtime/base/line_reader.h"
#include "runtime/telemetry/lines/line_file.h"
#include "tests/launch/report/lines.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace trireme::test {
namespace {

using report::Buckets;
using report::MetricsHistory;
using report::RankHistory;
using report::read_metrics;
using report::read_ranks;
using report::read_run;
using report::RunData;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class ReportReading : public testing::Test {
 protected:
  [[nodiscard]] MetricsHistory metrics_of(const std::string& text) const {
    write_text(directory_.file("metrics.jsonl"), text);
    return read_metrics(directory_.file("metrics.jsonl"));
  }
  [[nodiscard]] RankHistory ranks_of(const std::string& text) const {
    write_text(directory_.file("ranks.jsonl"), text);
    return read_ranks(directory_.file("ranks.jsonl"));
  }
  [[nodiscard]] std::string path() const { return directory_.path(); }
  [[nodiscard]] std::string file(const std::string& name) const { return directory_.file(name); }

 private:
  TemporaryDirectory directory_;
};

RunStart start_at(const std::string& second, LostSteps lost = {}) {
  const std::string line = R"({"start":"2026-11-22T00:00:)" + second + R"(Z"})";
  auto start = std::get<RunStart>(*parse_rank_line(line));
  start.lost = lost;
  return start;
}

std::string steps(std::int64_t first, std::int64_t last, double start = 0) {
  std::string text;
  for (std::int64_t step = first; step <= last; ++step)
    text += step_line(step, 1.0 / static_cast<double>(step),
                      start + 0.1 * static_cast<double>(step - first + 1));
  return text;
}

TEST_F(ReportReading, LinesOfAnyLengthAreReadWholeOrSkipped) {
  const std::string longest(100, 'a');
  write_text(file("lines"), "one\n" + longest + "\n" + longest + "b\n\nlast\nhalf");
  LineReader reader(file("lines"), 101);

  EXPECT_EQ(reader.next(), "one");
  EXPECT_EQ(reader.next(), longest);
  EXPECT_EQ(reader.next(), "");
  EXPECT_EQ(reader.number(), 4);
  EXPECT_EQ(reader.next(), "last");
  EXPECT_EQ(reader.next(), std::nullopt);
  EXPECT_EQ(reader.too_long(), 1);
  EXPECT_TRUE(reader.torn_end());
}

TEST_F(ReportReading, BucketsKeepEverySpikeInBoundedMemory) {
  Buckets buckets(64);
  const std::size_t column = buckets.column("loss");
  for (std::int64_t step = 1; step <= 100000; ++step)
    buckets.add(buckets.at(step, 0), column, step == 77777 ? 9.0 : step == 5 ? -3.0 : 1.0);

  ASSERT_LE(buckets.all().size(), 64U);
  EXPECT_GE(buckets.all().size(), 32U);
  std::int64_t count = 0, expected_first = 1;
  for (const report::Bucket& bucket : buckets.all()) {
    const report::Cell& cell = *bucket.cell(column);
    count += cell.count;
    EXPECT_EQ(bucket.first, expected_first);
    expected_first = bucket.last + 1;
    EXPECT_EQ(cell.max == 9.0, bucket.first <= 77777 && 77777 <= bucket.last);
    EXPECT_EQ(cell.min == -3.0, bucket.first <= 5 && 5 <= bucket.last);
  }
  EXPECT_EQ(count, 100000);
}

TEST_F(ReportReading, StepsFarApartDoNotGrowTheBuckets) {
  Buckets buckets(16);
  const std::size_t column = buckets.column("loss");
  for (int bit = 0; bit < 53; ++bit)
    buckets.add(buckets.at(std::int64_t{1} << bit, 0), column, 1);
  EXPECT_LE(buckets.all().size(), 16U);
}

TEST_F(ReportReading, TotalsOfAWholeRunAddUp) {
  const MetricsHistory all = metrics_of(steps(1, 10) + evaluation_line(10, 0.5, 1.6));

  EXPECT_EQ(all.steps, 10);
  EXPECT_EQ(all.last_step, 10);
  EXPECT_NEAR(all.totals[TimePart::step], 1000, 1e-9);
  EXPECT_NEAR(all.totals[TimePart::data_wait], 200, 1e-9);
  EXPECT_EQ(all.totals.items, 10000);
  EXPECT_EQ(all.items, "tokens");
  EXPECT_NEAR(all.running_seconds, 1.6, 1e-3);
  EXPECT_NEAR(all.evaluation_seconds, 0.5, 1e-9);
  ASSERT_EQ(all.evaluations.size(), 1U);
  EXPECT_EQ(all.evaluations[0].sources[0].first, "a\"b");
  EXPECT_EQ(all.broken + all.missing_steps + all.repeated_steps + all.clock_jumps, 0);
  EXPECT_FALSE(all.torn_end);
}

TEST_F(ReportReading, ALateLineDoesNotShortenTheNext) {
  // The second line was written 80 ms late: 180 ms behind the first, and 20 ms before the third.
  const MetricsHistory all = metrics_of(step_line(1, 1, 1) + step_line(2, 1, 1.18) +
                                        step_line(3, 1, 1.2) + step_line(4, 1, 1.3));

  Buckets buckets = all.buckets;
  const std::size_t column = buckets.column(std::string(report::between_column));
  double sum = 0;
  for (const report::Bucket& bucket : buckets.all()) {
    EXPECT_GE(bucket.cell(column)->min, 0);
    sum += bucket.cell(column)->sum;
  }
  EXPECT_NEAR(sum, 80, 1) << "before step 2; step 3 makes up for it";
}

TEST_F(ReportReading, EnergyIsThatOfTheStepsThatKnowIt) {
  std::string known = step_line(2, 1, 1.1);
  known.insert(known.size() - 2, R"(,"joules":50)");

  const MetricsHistory all = metrics_of(step_line(1, 1, 1) + known);

  EXPECT_DOUBLE_EQ(all.totals.joules, 50);
  EXPECT_EQ(all.totals.joule_items, 1000);
}

TEST_F(ReportReading, BrokenLinesAreCountedAndTheRestIsRead) {
  const std::string good = step_line(3, 0.5, 1);
  const MetricsHistory all = metrics_of(
      steps(1, 2) + good.substr(0, 40) + "\n" + std::string(30, '\0') + "\n[1, 2]\n\"step\"\n{}\n" +
      "{\"step\":-1,\"loss\":1}\n{\"step\":1e300,\"loss\":1}\n{\"step\":\"3\",\"loss\":1}\n" +
      "{\"step\":4,\"loss\":1e999}\n" + std::string(100000, '[') + "\n" + good +
      "{\"step\":3,\"rate_of_a_later_version\":7}\n" + good.substr(0, 60));

  EXPECT_EQ(all.steps, 3);
  EXPECT_EQ(all.broken, 10);
  EXPECT_EQ(all.first_broken, 3);
  EXPECT_EQ(all.of_no_kind, 1);
  EXPECT_TRUE(all.torn_end);
  EXPECT_EQ(all.last_loss, 0.5);
}

TEST_F(ReportReading, WarningsOfARunAreReportedOn) {
  write_text(file("metrics.jsonl"),
             steps(1, 2) + format_json(RunWarning{.step = 2, .kind = "slow_data", .text = "a.h5"}) +
                 step_line(3, 1, 0.3));

  const RunData run = read_run(path());

  EXPECT_EQ(run.metrics.of_no_kind, 0);
  EXPECT_THAT(report::text_report(run),
              HasSubstr("warnings     1, first at step 2: slow_data: a.h5"));
}

TEST_F(ReportReading, LossesThatAreNotFiniteAreNamed) {
  const double nan = std::nan("");
  const MetricsHistory all =
      metrics_of(steps(1, 2) + step_line(3, nan, 0.3) + step_line(4, 1.0 / 0.0, 0.4));

  EXPECT_EQ(all.non_finite.count, 2);
  EXPECT_EQ(all.non_finite.first, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(all.lowest_loss, 0.5);
  EXPECT_TRUE(std::isnan(*all.last_loss));
}

TEST_F(ReportReading, ALaterStartReplacesWhatAnEarlierOneReported) {
  const MetricsHistory all = metrics_of(steps(1, 10) + steps(5, 6, 1));

  EXPECT_EQ(all.went_back.count, 1);
  EXPECT_EQ(all.repeated_steps, 2);
  EXPECT_NEAR(all.repeated_seconds, 0.2, 1e-9);
  EXPECT_EQ(all.last_step, 6);
  for (const report::Bucket& bucket : all.buckets.all())
    EXPECT_EQ(bucket.cell(all.buckets.find("loss"))->count, 1) << bucket.first;
}

TEST_F(ReportReading, StopsAndClockJumpsAreNoRunningTime) {
  const MetricsHistory all =
      metrics_of(steps(1, 10) + steps(11, 20, 5000) + steps(21, 30, 2000) + steps(41, 50, 2001));

  EXPECT_EQ(all.pauses.count, 1);
  EXPECT_NEAR(all.paused_seconds, 4999, 1);
  EXPECT_EQ(all.clock_jumps, 1);
  EXPECT_EQ(all.missing_steps, 10);
  EXPECT_NEAR(all.running_seconds, 4, 0.2);
}

TEST_F(ReportReading, AShortGapWithAStartInItIsAPause) {
  write_text(file("metrics.jsonl"), steps(1, 10) + steps(11, 20, 9));
  const MetricsHistory without = read_metrics(file("metrics.jsonl"));
  const MetricsHistory with =
      read_metrics(file("metrics.jsonl"), std::vector{start_at("08"), RunStart{}});

  EXPECT_EQ(without.pauses.count, 0);
  EXPECT_EQ(with.pauses.count, 1);
  EXPECT_NEAR(with.paused_seconds, 8, 0.1);
  EXPECT_NEAR(with.running_seconds, 2, 0.1);
}

// Killed at 5.0 s and 7.0 s, once behind each of two starts from step 10.
TEST_F(ReportReading, StepsThatWereLostAreNoPause) {
  const std::string text = steps(1, 10) + steps(11, 20, 9);
  write_text(file("metrics.jsonl"), text);
  const std::vector starts{start_at("00", {}), start_at("05", {.steps = 30, .seconds = 3}),
                           start_at("08", {.steps = 10, .seconds = 1})};
  const MetricsHistory all = read_metrics(file("metrics.jsonl"), starts);

  EXPECT_EQ(all.lost.steps, 40);
  EXPECT_NEAR(all.lost.seconds, 4, 1e-9);
  EXPECT_NEAR(all.paused_seconds, 4, 0.1);
  EXPECT_NEAR(all.running_seconds, 2, 0.1);
  EXPECT_NEAR(all.whole_seconds(), 10, 0.1);

  write_text(file("ranks.jsonl"),
             R"({"start":"2026-11-22T00:00:00Z","step":0,"ranks":1})"
             "\n"
             R"({"start":"2026-11-22T00:00:08Z","step":10,"lost_steps":40,"lost_s":4,"ranks":1})"
             "\n");
  EXPECT_THAT(report::text_report(read_run(path())),
              HasSubstr("goodput      20.0 % of 0:10; 1 pause (stops, starts) of 0:04; 40 steps "
                        "lost at restarts, 0:04"));
}

TEST_F(ReportReading, StepsThatWereLostBeforeTheFirstCheckpointCountToo) {
  write_text(file("metrics.jsonl"), steps(1, 10, 9));
  const MetricsHistory all =
      read_metrics(file("metrics.jsonl"), std::vector{start_at("08", {.steps = 20, .seconds = 2})});

  EXPECT_EQ(all.lost.steps, 20);
  EXPECT_NEAR(all.whole_seconds(), 3, 1e-6);
}

TEST_F(ReportReading, AClockThatIsSetForwardAndBackMakesNoPause) {
  const MetricsHistory forward = metrics_of(steps(1, 10) + steps(11, 20, 50000) + steps(21, 30, 2));
  EXPECT_EQ(forward.pauses.count, 0);
  EXPECT_EQ(forward.paused_seconds, 0);
  EXPECT_EQ(forward.clock_jumps, 1);
  EXPECT_NEAR(forward.running_seconds, 3, 0.2);

  const MetricsHistory back =
      metrics_of(steps(1, 10, 50000) + steps(11, 20) + steps(21, 30, 50002));
  EXPECT_EQ(back.pauses.count, 0);
  EXPECT_NEAR(back.running_seconds, 3, 0.2);
}

TEST_F(ReportReading, AlternatingLinesOfTwoHostsCountNoSecondTwice) {
  std::string mixed;
  for (int step = 1; step <= 50; ++step)
    mixed += step_line(step, 1, 100 + 0.1 * step) + step_line(step, 2, 0.1 * step);

  const MetricsHistory all = metrics_of(mixed);

  EXPECT_EQ(all.pauses.count, 0);
  EXPECT_NEAR(all.running_seconds, 10, 1) << "100 steps of 0.1 s";
}

TEST_F(ReportReading, TimeStampsAreReadAsTheyAreWritten) {
  EXPECT_EQ(timestamp_seconds("1970-01-02T00:00:01.250Z"), 86401.25);
  EXPECT_EQ(timestamp_seconds("2026-02-30T00:00:00Z"), std::nullopt);
  EXPECT_EQ(timestamp_seconds("2026-02-03 00:00:00Z"), std::nullopt);
  EXPECT_EQ(timestamp_seconds("2026"), std::nullopt);
}

std::string window_line(int first, int last, const std::string& late) {
  return fmt::format(R"({{"steps":[{},{}],"timestamp":"2026-11-22T00:00:01.000Z",)"
                     R"("split":{{"compute_ms":80,"straggler_ms":20}},)"
                     R"("by_rank":{{"late_ms":{},"period_ms":{}}}}})"
                     "\n",
                     first, last, late, late);
}

TEST_F(ReportReading, RanksAreReadByWindowsAndStarts) {
  const std::string start =
      R"({"start":"2026-11-22T00:00:00.000Z","step":0,"ranks":2,"hosts":["a","b"],)"
      R"("mesh":{"data":2,"tensor":1},"facts":{"data":2}})"
      "\n";
  const std::string end = R"({"end":"2026-11-22T01:00:00.000Z","step":14})"
                          "\n";
  const std::string again =
      R"({"start":"2026-11-22T01:00:00.000Z","step":10,"lost_steps":12,"lost_s":1.25,"ranks":2})"
      "\n";

  const RankHistory ranks =
      ranks_of(start + window_line(1, 10, "[1,30]") + window_line(11, 20, "[2,40]") + again +
               "{\"steps\":[1]}\n" + window_line(11, 14, "[3,50]") + end);

  EXPECT_EQ(ranks.start_count, 2);
  EXPECT_EQ(ranks.starts[0].hosts, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(ranks.starts[1].lost.steps, 12);
  EXPECT_EQ(ranks.starts[1].lost.seconds, 1.25);
  ASSERT_EQ(ranks.windows.size(), 2U);
  EXPECT_EQ(ranks.windows[1].first, 11);
  EXPECT_THAT(ranks.windows[1].late, testing::ElementsAre(4 * 3, 4 * 50));
  EXPECT_EQ(ranks.ranks_of_last_start, 2);
  EXPECT_EQ(mesh_of(ranks.starts[0].facts).data, 2);
  EXPECT_EQ(ranks.broken, 1);
  EXPECT_TRUE(ranks.fold.ended());
}

TEST_F(ReportReading, ManyRanksAndWindowsStaySmall) {
  std::string late = "[0";
  for (int rank = 1; rank < 5000; ++rank)
    late += rank == 4321 ? ",777" : ",1";
  std::string text;
  for (int window = 0; window < 1000; ++window)
    text += window_line(10 * window + 1, 10 * window + 10, late + "]");

  const RankHistory ranks = ranks_of(text);

  EXPECT_EQ(ranks.ranks, 5000);
  EXPECT_LE(ranks.windows.size(), 240U);
  const std::vector<float>& rows = ranks.windows[0].late;
  EXPECT_LE(rows.size(), 256U);
  const auto merged = static_cast<float>(ranks.windows[0].totals.steps);
  EXPECT_FLOAT_EQ(rows[static_cast<std::size_t>(4321 / ranks.ranks_per_row)], 777 * merged);
  EXPECT_EQ(ranks.windows.back().last, 10000);
}

TEST_F(ReportReading, ADirectoryWithoutARunIsRefused) {
  expect_error(
      ExitCode::config, [&] { static_cast<void>(read_run(path() + "/none")); },
      "No such file or directory");
  write_text(file("file"), "");
  expect_error(
      ExitCode::config, [&] { static_cast<void>(read_run(file("file"))); }, "Not a directory");
  expect_error(
      ExitCode::data, [&] { static_cast<void>(read_run(path())); }, "holds no run",
      "metrics.jsonl does not exist");
}

TEST_F(ReportReading, ReadableRunsAreReportedAmongSeveral) {
  write_text(file("metrics.jsonl"), steps(1, 3));
  const std::string nowhere = path() + "/none", missing = path() + "/gone";
  std::optional<Error> unread;

  const auto runs = report::read_runs(std::vector{nowhere, path(), missing}, unread);

  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].metrics.steps, 3);
  ASSERT_TRUE(unread.has_value());
  EXPECT_THAT(unread->what(), AllOf(HasSubstr(nowhere), HasSubstr(missing)));
  expect_error(
      ExitCode::config, [&] { static_cast<void>(report::read_runs(std::vector{missing}, unread)); },
      missing);
}

TEST_F(ReportReading, MissingAndForeignFilesAreRemarked) {
  write_text(file("metrics.jsonl"), steps(1, 3));
  write_text(file("config.yaml"), "train: {steps_of_another_version: 3}\n");
  write_text(file("environment.json"), "{\"ranks\": \"many\", \"hosts\": [1, \"b\"], \"cpu\": 3");

  const RunData run = read_run(path());

  EXPECT_EQ(run.metrics.steps, 3);
  EXPECT_THAT(run.remarks, Contains(HasSubstr("steps_of_another_version")));
  EXPECT_THAT(run.remarks, Contains(HasSubstr("environment.json is not a JSON")));
  EXPECT_THAT(run.remarks, Contains(HasSubstr("ranks.jsonl does not exist")));
  const std::string text = report::text_report(run);
  EXPECT_THAT(text, HasSubstr("bottleneck: data wait (20.0 %)"));
  EXPECT_THAT(text, HasSubstr("note: "));
}

TEST_F(ReportReading, AFinishedRunReportsItsEnd) {
  write_text(file("metrics.jsonl"), steps(1, 3));
  write_text(file("config.yaml"), "train: {steps: 9}\n");
  write_text(file("environment.json"), "{\"hosts\": [\"" + host_name() + "\"]}");
  const std::string head = "[2026-11-22 12:01:02.345] ";
  write_text(file("console.log"), head + "[error] [0] [main] disk full\n");
  EXPECT_THAT(
      report::text_report(read_run(path())),
      AllOf(HasSubstr("state        FAILED"), HasSubstr("because      [error] [0] [main] disk"),
            Not(HasSubstr("go on with"))));

  write_text(file("console.log"), head + "[warning] [0] [train] stopped before step 9: SIGTERM\n");
  EXPECT_THAT(report::text_report(read_run(path())), HasSubstr("state        stopped"));
}

TEST_F(ReportReading, AKilledRunReportsHowToContinue) {
  write_text(file("metrics.jsonl"), steps(1, 3));
  write_text(file("config.yaml"), "train: {steps: 9}\n");
  write_text(file("owner.lock"), "");
  write_text(file("environment.json"),
             "{\"hosts\": [\"" + host_name() +
                 "\"], \"ranks\": 2, \"command_line\": [\"/a/trireme\", \"train\", \"a b.yaml\"]}");
  std::filesystem::create_directories(file("checkpoints/step_00000002"));
  write_text(file("checkpoints/step_00000002/manifest.json"), "{}");

  EXPECT_THAT(report::text_report(read_run(path())),
              AllOf(HasSubstr("state        ENDED"),
                    HasSubstr("the same command resumes from the checkpoint of step 2"),
                    HasSubstr("go on with   launch/mpi_run.sh -np 2 trireme train 'a b.yaml'\n")));
}

TEST_F(ReportReading, AStudyIsItsRunsByName) {
  for (const char* const run :
       {"runs/000-base/seed-1/run", "runs/000-base/seed-2/run", "runs/001-plain/seed-1/run"}) {
    std::filesystem::create_directories(file(run));
    write_text(file(std::string(run) + "/metrics.jsonl"), steps(1, 3));
  }
  std::optional<Error> unread;

  const auto runs = report::read_runs(std::vector{path()}, unread);

  ASSERT_EQ(runs.size(), 3U);
  EXPECT_EQ(runs[0].name, "000-base/seed-1");
  EXPECT_EQ(runs[1].name, "000-base/seed-2");
  EXPECT_EQ(runs[2].name, "001-plain/seed-1");
  EXPECT_FALSE(unread);
  const auto by_pattern =
      report::read_runs(std::vector{file("runs/*-base"), file("runs/none*")}, unread);
  EXPECT_EQ(by_pattern.size(), 2U);
}

TEST_F(ReportReading, IrregularFilesAreSkipped) {
  write_text(file("config.yaml"), "train: {steps: 3}\n");
  ASSERT_EQ(::mkfifo(file("metrics.jsonl").c_str(), 0600), 0);
  std::filesystem::create_directory(file("ranks.jsonl"));

  const RunData run = read_run(path());

  EXPECT_FALSE(run.has_metrics);
  EXPECT_EQ(run.planned_steps, 3);
  EXPECT_THAT(report::text_report(run), HasSubstr("metrics.jsonl"));
}

TEST_F(ReportReading, WithoutPermissionTheReasonIsGiven) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  write_text(file("metrics.jsonl"), steps(1, 3));
  write_text(file("config.yaml"), "train: {steps: 3}\n");
  ASSERT_EQ(::chmod(file("metrics.jsonl").c_str(), 0), 0);
  EXPECT_THAT(read_run(path()).remarks, Contains(HasSubstr("this user may not read it (EACCES)")));
}

TEST_F(ReportReading, ANoticeOfTwoJobsInOneDirectory) {
  std::string mixed;
  for (int step = 1; step <= 50; ++step)
    mixed += step_line(step, 1, 0.1 * step) + step_line(500 + step, 2, 0.1 * step);
  write_text(file("metrics.jsonl"), mixed);

  const RunData run = read_run(path());

  EXPECT_EQ(run.metrics.went_back.count, 49);
  EXPECT_THAT(run.remarks, Contains(HasSubstr("two jobs wrote to it")));
  EXPECT_THAT(report::text_report(run), Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace trireme::test
