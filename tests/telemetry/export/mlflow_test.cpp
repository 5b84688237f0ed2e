// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "runtime/telemetry/export/exported_names.h"
#include "runtime/telemetry/export/mlflow_run.h"
#include "runtime/telemetry/export/offline_runs.h"
#include "runtime/telemetry/run_directory.h"
#include "tests/support/temporary_directory.h"
#include "tests/telemetry/export/sample_run.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using test::noon;
using test::read_text;
using test::sample_evaluation;
using test::sample_facts;
using test::sample_step;
using test::TemporaryDirectory;
using test::write_text;
using testing::HasSubstr;

std::string run_in(const TemporaryDirectory& directory) {
  const std::string experiment = directory.file("mlruns/") + mlflow_experiment;
  return experiment + "/" + offline_run_in(experiment, is_mlflow_run);
}

TEST(MlflowRun, HasEveryMetricOfTheTable) {
  const TemporaryDirectory directory;
  MlflowRun run(sample_facts(directory.path()));

  run.step(sample_step(8));
  run.evaluation(sample_evaluation(8));

  const std::string metrics = run_in(directory) + "/metrics/";
  const auto line = [](double value) { return fmt::format("1795348863345 {} 8\n", value); };
  for (const StepMetric& metric : step_metrics())
    EXPECT_EQ(read_text(metrics + grouped_name(metric, ItemKind::tokens)),
              line(*metric.value(sample_step(8))));
  for (const EvaluationMetric& metric : evaluation_metrics())
    EXPECT_EQ(read_text(metrics + grouped_name(metric)), line(*metric.value(sample_evaluation(8))));
  EXPECT_EQ(read_text(metrics + "evaluation_books/accuracy"), "1795348863345 0.625 8\n");
}

TEST(MlflowRun, HasTheConfigAsParamsAndAsAnArtifact) {
  const TemporaryDirectory directory;

  const MlflowRun run(sample_facts(directory.path()));

  EXPECT_EQ(read_text(run_in(directory) + "/params/train.steps"), "1000");
  EXPECT_EQ(read_text(run_in(directory) + "/tags/mlflow.runName"), "runs/sample");
  EXPECT_EQ(read_text(run_in(directory) + "/artifacts/config.yaml"),
            sample_facts(directory.path()).config);
}

TEST(MlflowRun, SaysHowItEnded) {
  for (const auto& [end, status] :
       {std::pair(RunEnd::done, "\nstatus: 3\n"), std::pair(RunEnd::failed, "\nstatus: 4\n"),
        std::pair(RunEnd::stopped, "\nstatus: 5\n")}) {
    const TemporaryDirectory directory;
    MlflowRun run(sample_facts(directory.path()));
    EXPECT_THAT(read_text(run_in(directory) + "/meta.yaml"), HasSubstr("\nstatus: 1\n"));

    run.finish(end);

    EXPECT_THAT(read_text(run_in(directory) + "/meta.yaml"), HasSubstr(status));
  }
}

TEST(MlflowRun, NamesOfSourcesBecomeOnesThatItTakes) {
  const TemporaryDirectory directory;
  MlflowRun run(sample_facts(directory.path()));

  run.evaluation({.step = 1, .sources = {{"../a b:c", 1.5, {}}}, .time = noon});

  EXPECT_EQ(read_text(run_in(directory) + "/metrics/evaluation____a_b_c/validation_loss"),
            "1795348862345 1.5 1\n");
}

TEST(MlflowRun, GoesOnBehindTheStepsThatCount) {
  const TemporaryDirectory directory;
  ExportFacts facts = sample_facts(directory.path());
  test::failed_start<MlflowRun>(facts);
  const std::string loss = run_in(directory) + "/metrics/train/loss";
  write_text(loss, read_text(loss) + "17953488");  // torn
  facts.done = 3;

  MlflowRun again(facts);
  StepMetrics fourth = sample_step(4);
  fourth.loss = std::numeric_limits<double>::quiet_NaN();
  again.step(fourth);
  again.flush();

  EXPECT_EQ(read_text(loss),
            "1795348862470 1.5 1\n1795348862595 1.5 2\n1795348862720 1.5 3\n"
            "1795348862845 nan 4\n");
  EXPECT_THAT(read_text(run_in(directory) + "/meta.yaml"), HasSubstr("\nstatus: 1\n"));
}

TEST(OfflineRuns, OfARunThatIsOverwrittenGoAndThoseOfOthersStay) {
  const TemporaryDirectory directory;
  const std::string other = directory.file("wandb/offline-run-20261122_120102-abcd1234");
  fs::create_directories(other);
  fs::create_directories(directory.file("wandb/offline-run-20261122_120102-" + new_run_id()));
  { const MlflowRun run(sample_facts(directory.path())); }

  RunDirectory::remove_run(directory.path());

  EXPECT_TRUE(fs::exists(other));
  EXPECT_EQ(offline_run_in(directory.file("wandb"), is_wandb_run), "");
  EXPECT_FALSE(fs::exists(directory.file("mlruns")));
}

}  // namespace
}  // namespace trireme
