// SPDX-License-Identifier: Apache-2.0
// Reports of `trireme scale` on varying, single and disturbed runs.
#include <gmock/gmock.h>

#include <numeric>

#include "launch/study/scale/report.h"

namespace trireme::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

scale::RunResult run_of(const Times& parts) {
  return {.command = 0, .code = 0, .error = {}, .parts = parts};
}

scale::Study small_study() {
  scale::Study study;
  study.options.config = "a.yaml";
  study.traits.item_name = "tokens";
  return study;
}

// Three repeats: 2 ranks against 1, with the same drift of times over the study.
std::vector<scale::Row> drifting_rows() {
  const scale::Point base{.mesh = {.data = 1}, .global_batch = 8};
  const scale::Point point{.mesh = {.data = 2}, .global_batch = 16};
  const auto run = [](double period) {
    return run_of({{TimePart::period, period}, {TimePart::compute, period}});
  };
  return scale::attribute(
      {{base, {run(1), run(1.1), run(1.2)}}, {point, {run(1.25), run(1.375), run(1.6)}}});
}

TEST(ScaleSplit, IntervalsAreStudentsAndEfficienciesAreOfTheSameRepeat) {
  const std::vector<scale::Row> rows = drifting_rows();

  // 80, 80 and 75 %.
  EXPECT_FALSE(rows[0].loss->interval);
  const double half = 4.30265 * 0.05 / 3;
  EXPECT_NEAR(rows[1].loss->interval->low, 2.35 / 3 - half, 1e-6);
  EXPECT_NEAR(rows[1].loss->interval->high, 2.35 / 3 + half, 1e-6);
  EXPECT_NEAR(rows[1].loss->efficiency.median, 0.8, 1e-9);
  EXPECT_NEAR(rows[1].loss->efficiency.min, 1.1 / 1.6, 1e-9);
  EXPECT_NEAR(rows[1].loss->efficiency.max, 1.1 / 1.25, 1e-9);
}

TEST(ScaleReport, RunsThatVaryByMoreThanTheLossShowNone) {
  const scale::Point base{.mesh = {.data = 1}, .global_batch = 8};
  const scale::Point point{.mesh = {.data = 2}, .global_batch = 16};
  const auto run = [](double period) {
    return run_of({{TimePart::period, period}, {TimePart::compute, period}});
  };
  const auto rows = scale::attribute({{base, {run(1), run(1)}}, {point, {run(1), run(2)}}});

  EXPECT_EQ(rows[1].loss->interval->low, 0) << "not below";
  EXPECT_THAT(scale::bottlenecks_on(small_study(), rows),
              testing::ElementsAre("weak scaling is 66.7 % efficient on 2 ranks as data=2, but "
                                   "runs vary by as much, so this shows no loss"));
}

TEST(ScaleReport, IntervalsHaveTheSameBracketsEverywhere) {
  scale::Study study = small_study();
  study.options.repeats = 3;
  const std::vector<scale::Row> rows = drifting_rows();

  for (const std::string& text : {scale::text_report(study, rows), scale::html_report(study, rows),
                                  scale::latex_report(study, rows)}) {
    EXPECT_THAT(text, HasSubstr("[71.2, 85.5]"));
    EXPECT_THAT(text, HasSubstr("95 % intervals of the mean of the runs"));
  }
}

TEST(ScaleReport, BeginsWithThreeNumbersAndAVerdict) {
  const scale::Study study = small_study();
  const std::vector<scale::Row> rows = drifting_rows();
  const std::string bottleneck =
      "weak scaling is 80.0 % efficient on 2 ranks as data=2, and loses most by compute slowdown "
      "(20.0 % of a step)";

  const std::string page = scale::html_report(study, rows);

  EXPECT_THAT(scale::text_report(study, rows), HasSubstr("bottleneck: " + bottleneck + "\n"));
  EXPECT_THAT(page, AllOf(HasSubstr("<b>80.0 %</b>"), HasSubstr("<b>6 of 6</b>"),
                          HasSubstr("<strong>bottleneck: " + bottleneck + "</strong></p>")));
  EXPECT_LT(page.find("class=\"headline\""), page.find("<table>"));
  EXPECT_THAT(scale::html_report(study, std::vector{rows[0]}),
              Not(HasSubstr("class=\"headline\"")));
}

// Ranks without a core for most of the step; one run of 0.14 s per point, shared by both modes.
TEST(ScaleReport, ContentionIsACauseAndShortRunsAreUnsure) {
  const scale::Point base{.mesh = {.data = 1}, .global_batch = 8};
  const scale::Point point{.mesh = {.data = 2}, .global_batch = 16};
  const auto once = run_of({{TimePart::period, 0.007}, {TimePart::compute, 0.007}});
  const auto crowded = run_of({{TimePart::period, 0.014},
                               {TimePart::compute, 0.004},
                               {TimePart::core_wait, 0.009},
                               {TimePart::straggler, 0.001}});
  scale::Point strong = base;
  strong.mode = scale::Mode::strong;
  const auto rows = scale::attribute({{base, {once}}, {point, {crowded}}, {strong, {once}}});
  const scale::Study study = small_study();

  EXPECT_NEAR(rows[1].loss->parts[4], 0.009, 1e-12);
  EXPECT_NEAR(std::accumulate(rows[1].loss->parts.begin(), rows[1].loss->parts.end(), 0.0),
              rows[1].loss->gap, 1e-12);
  const std::string bottleneck = scale::bottlenecks_on(study, rows).front();
  EXPECT_THAT(bottleneck, AllOf(HasSubstr("loses most by CPU contention (64.3 %"),
                                HasSubstr("--repeats 3"), HasSubstr("--steps ")));
  EXPECT_THAT(scale::csv_report(study, rows), HasSubstr("cpu_contention_seconds"));
  EXPECT_THAT(scale::html_report(study, rows), HasSubstr("<b>2 of 2</b>"));
  EXPECT_THAT(scale::bottlenecks_on(study, drifting_rows()).front(), Not(HasSubstr("unsure")));
}

TEST(ScaleReport, OneRunHasNoIntervalAndSaysSo) {
  scale::Study study = small_study();
  study.options.repeats = 1;
  const auto rows = scale::attribute({{{.mesh = {.data = 1}, .global_batch = 8},
                                       {run_of({{TimePart::period, 1}, {TimePart::compute, 1}})}}});

  for (const std::string& text : {scale::text_report(study, rows), scale::html_report(study, rows),
                                  scale::latex_report(study, rows)})
    EXPECT_THAT(text, HasSubstr("no intervals (see --repeats)"));
}

// A study with other load on the cores during its first point.
TEST(ScaleReport, ImpossibleEfficienciesAndCoreWaitsAreRemarked) {
  const scale::Point base{.mesh = {.data = 1}, .global_batch = 8};
  const scale::Point point{.mesh = {.data = 2}, .global_batch = 16};
  const auto rows = scale::attribute(
      {{base,
        {run_of({{TimePart::period, 1.3}, {TimePart::compute, 1.3}, {TimePart::core_wait, 0.3}})}},
       {point,
        {run_of({{TimePart::period, 1}, {TimePart::compute, 1}, {TimePart::core_wait, 0.01}})}}});

  const std::vector<std::string> remarks = scale::remarks_on(rows);

  ASSERT_EQ(remarks.size(), 3U);
  EXPECT_EQ(remarks[0],
            "weak scaling, 1 ranks as data=1: threads had no core for 23 % of the step");
  EXPECT_THAT(remarks[1], HasSubstr("2 ranks as data=2: 130.0 % is more than ranks can gain"));
  EXPECT_THAT(remarks[2], HasSubstr("measure again on cores of your own"));
  const scale::Study study = small_study();
  for (const std::string& remark : remarks) {
    EXPECT_THAT(scale::text_report(study, rows), HasSubstr("note: " + remark));
    EXPECT_THAT(scale::html_report(study, rows), HasSubstr(remark));
  }
  EXPECT_TRUE(scale::remarks_on(drifting_rows()).empty());
}

}  // namespace
}  // namespace trireme::test
