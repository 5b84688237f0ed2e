// SPDX-License-Identifier: Apache-2.0
// The curve of a run's losses, and the list of runs.
#include <gmock/gmock.h>

#include "launch/observe/top/loss_curve.h"
#include "launch/observe/top/run_set.h"
#include "launch/run/run_files.h"
#include "tests/launch/top/run_files.h"

namespace trireme::top {
namespace {

using runs::distinguishing_names;
using runs::runs_at;
using test::RunFiles;
using test::TemporaryDirectory;
using test::write_text;
using testing::ElementsAre;

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
  EXPECT_EQ(runs.views()[1]->standing.status, RunStatus::missing);
}

}  // namespace
}  // namespace trireme::top
