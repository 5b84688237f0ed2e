// SPDX-License-Identifier: Apache-2.0
// Lines, ends of files, and which runs are there.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cmath>

#include "launch/top/file_tail.h"
#include "launch/top/loss_curve.h"
#include "launch/top/metrics_line.h"
#include "launch/top/run_places.h"
#include "launch/top/run_set.h"
#include "runtime/telemetry/metric_table.h"
#include "tests/launch/top/run_files.h"

namespace trireme::top {
namespace {

using test::RunFiles;
using test::TemporaryDirectory;
using test::write_text;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(MetricsLine, PartsOfAStepAreThoseOfTheTableOfMetrics) {
  for (const StepPart& part : step_parts) {
    const auto known = std::ranges::any_of(
        step_metrics(), [&](const StepMetric& metric) { return metric.name == part.key; });
    EXPECT_TRUE(known) << part.key;
  }
}

TEST(MetricsLine, EveryKindIsRead) {
  const auto step = std::get<StepLine>(parse_metrics_line(RunFiles::step_line(7, 1.25)));
  EXPECT_EQ(step.step, 7);
  EXPECT_EQ(step.loss, 1.25);
  EXPECT_EQ(step.items, "tokens");
  EXPECT_NEAR(step.items_per_s, 40960, 1e-6);
  EXPECT_EQ(step.parts_ms[3], 20);
  EXPECT_TRUE(std::isnan(step.joules));

  const auto evaluation = std::get<EvaluationLine>(parse_metrics_line(
      format_json(EvaluationMetrics{.step = 9, .validation_loss = 0.5, .accuracy = 0.9})));
  EXPECT_EQ(evaluation.accuracy, 0.9);

  const auto warning = [](const std::string& line) {
    return std::get<WarningLine>(parse_metrics_line(line)).text;
  };
  EXPECT_EQ(warning(format_json(FailedSave{.step = 4, .problem = "disk full", .in_a_row = 2})),
            "checkpoint failed (2 in a row): disk full");
  EXPECT_THAT(warning(format_json(SkippedBatch{.step = 4, .zscore = 9, .samples = {1}})),
              HasSubstr("9.0 deviations"));
  EXPECT_EQ(warning(R"({"step":3,"warning":"slow_data","text":"a.h5 is slow"})"), "a.h5 is slow");
}

TEST(MetricsLine, WhatIsNoLineIsNone) {
  for (const char* const text : {"", "{\"step\":1,\"loss\":2", "[1]", "{\"loss\":1}", "7",
                                 "{\"step\":\"a\",\"loss\":1}", "{\"step\":-1,\"loss\":1}"})
    EXPECT_TRUE(std::holds_alternative<OtherLine>(parse_metrics_line(text))) << text;
  const auto nothing = std::get<StepLine>(parse_metrics_line(R"({"step":1,"loss":null})"));
  EXPECT_TRUE(std::isnan(nothing.loss));
}

// A tail, and what it told of since it was asked last.
struct Tail {
  explicit Tail(const std::string& path, std::uint64_t window = 64, std::uint64_t longest = 4096)
      : file(path, window, longest) {}
  FileTail file;
  std::vector<std::string> lines;
  FileTail::Change poll() {
    lines.clear();
    return file.poll([] {}, [&](std::string_view line) { lines.emplace_back(line); });
  }
};

TEST(FileTail, FollowsWhatIsAddedAndWaitsForTheEndOfALine) {
  const TemporaryDirectory directory;
  Tail tail(directory.file("f"));
  EXPECT_EQ(tail.poll(), FileTail::Change::none);
  EXPECT_FALSE(tail.file.exists());

  write_text(directory.file("f"), "one\ntwo\nthr");
  EXPECT_EQ(tail.poll(), FileTail::Change::another);
  EXPECT_THAT(tail.lines, ElementsAre("one", "two"));
  EXPECT_EQ(tail.poll(), FileTail::Change::none);
  std::ofstream(directory.file("f"), std::ios::app) << "ee\n";
  EXPECT_EQ(tail.poll(), FileTail::Change::added);
  EXPECT_THAT(tail.lines, ElementsAre("three"));
}

TEST(FileTail, BeginsWithWholeLinesNearTheEnd) {
  const TemporaryDirectory directory;
  std::string text;
  for (int i = 100; i < 200; ++i)
    text += std::to_string(i) + "\n";
  write_text(directory.file("f"), text);
  Tail tail(directory.file("f"), 8);

  EXPECT_EQ(tail.poll(), FileTail::Change::another);

  EXPECT_THAT(tail.lines, ElementsAre("198", "199"));
  EXPECT_TRUE(tail.file.begins_within());
}

TEST(FileTail, ALineThatIsLongerThanTheWindowIsReadWhole) {
  const TemporaryDirectory directory;
  write_text(directory.file("f"), "a\n" + std::string(1000, 'x') + "\n");
  Tail tail(directory.file("f"), 16);

  EXPECT_EQ(tail.poll(), FileTail::Change::another);

  EXPECT_EQ(tail.lines.back().size(), 1000U);
}

TEST(FileTail, NoticesThatAFileWasCutReplacedOrRemoved) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("f");
  Tail tail(path);
  write_text(path, "1\n2\n3\n");
  EXPECT_EQ(tail.poll(), FileTail::Change::another);
  write_text(path, "1\n");
  EXPECT_EQ(tail.poll(), FileTail::Change::another);
  EXPECT_THAT(tail.lines, ElementsAre("1"));
  // Cut and then longer than before: what was the end of a line is none any more.
  write_text(path, "123456\n7\n");
  EXPECT_EQ(tail.poll(), FileTail::Change::another);
  EXPECT_THAT(tail.lines, ElementsAre("123456", "7"));
  std::filesystem::remove(path);
  EXPECT_EQ(tail.poll(), FileTail::Change::gone);
  EXPECT_EQ(tail.poll(), FileTail::Change::none);
  write_text(path, "9\n");
  EXPECT_EQ(tail.poll(), FileTail::Change::another);
}

TEST(FileTail, APipeIsNoFileAndHoldsNobody) {
  const TemporaryDirectory directory;
  ASSERT_EQ(::mkfifo(directory.file("f").c_str(), 0600), 0);
  Tail tail(directory.file("f"));

  EXPECT_EQ(tail.poll(), FileTail::Change::none);

  EXPECT_EQ(tail.file.problem(), "is no regular file");
}

TEST(LossCurve, KeepsAMillionStepsInBoundedMemoryAndGoesBackWithTheRun) {
  LossCurve curve;
  for (int step = 1; step <= 1000000; ++step)
    curve.add(step, step < 500000 ? 4.0 : 2.0);
  const auto columns = curve.columns(10);
  ASSERT_EQ(columns.size(), 10U);
  EXPECT_NEAR(columns[1], 4, 1e-9);
  EXPECT_NEAR(columns[8], 2, 1e-9);

  curve.add(1000, 3.0);
  EXPECT_EQ(curve.first_step(), 1);
  EXPECT_NEAR(curve.columns(1).at(0), 4, 0.51);
}

TEST(RunSet, FindsRunsOfAnArrayInTheOrderOfTheirNumbersAsTheyCome) {
  const TemporaryDirectory directory;
  RunSet runs({directory.path() + "/"});
  const auto names = [&] {
    runs.refresh();
    std::vector<std::string> all;
    for (const RunView* const view : runs.views())
      all.push_back(view->name);
    return all;
  };
  EXPECT_EQ(names().size(), 1U);  // the place itself, without a run
  RunFiles(directory.file("7_10")).steps(1, 1);
  RunFiles(directory.file("7_2")).steps(1, 1);
  std::filesystem::create_directory(directory.file("logs"));
  EXPECT_THAT(names(), ElementsAre("7_2", "7_10"));
  RunFiles(directory.file("logs/8_1")).steps(1, 1);
  EXPECT_THAT(names(), ElementsAre("7_2", "7_10", "logs/8_1"));
  std::filesystem::remove_all(directory.file("7_2"));
  std::filesystem::remove_all(directory.file("logs"));
  EXPECT_THAT(names(), ElementsAre("7_10"));
}

TEST(RunSet, AStudyOrACampaignIsTheRunsInIt) {
  const TemporaryDirectory directory;
  for (const char* const run : {"study/runs/000-base/seed-1/run", "study/runs/001-a/seed-1/run"})
    RunFiles(directory.file(run)).config(3);
  RunFiles campaign(directory.file("campaign"));
  write_text(campaign.file("campaign.json"), "{}");
  write_text(campaign.file("owner.json"), "{}");
  RunFiles(campaign.file("run")).config(3);

  EXPECT_THAT(runs_at(directory.file("campaign/")), ElementsAre(campaign.file("run")));
  const auto runs = runs_at(directory.file("study"));
  EXPECT_THAT(distinguishing_names(runs), ElementsAre("000-base", "001-a"));
  EXPECT_THAT(distinguishing_names(std::vector<std::string>{"/a/one/run", "/b/run"}),
              ElementsAre("a/one", "b"));
  EXPECT_THAT(distinguishing_names(std::vector<std::string>{"/a/run", "/a/run/inner"}),
              ElementsAre("run", "run/inner"));
  EXPECT_THAT(distinguishing_names(std::vector<std::string>{"/a/run"}), ElementsAre("run"));
}

TEST(RunSet, PatternsAndPlacesThatAreNotThereYet) {
  const TemporaryDirectory directory;
  RunFiles(directory.file("a_1")).config(3);
  RunFiles(directory.file("b_1")).config(3);
  RunSet runs({directory.file("a_*"), directory.file("later"), directory.file("a_1")});

  runs.refresh();

  ASSERT_EQ(runs.views().size(), 2U);
  EXPECT_EQ(runs.views()[0]->name, "a_1");
  EXPECT_EQ(runs.views()[1]->state, RunState::missing);
}

}  // namespace
}  // namespace trireme::top
