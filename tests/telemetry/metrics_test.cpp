// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/metrics.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <limits>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

using T = TimePart;

using test::expect_error;
using test::read_text;
using test::TemporaryDirectory;

constexpr double infinity = std::numeric_limits<double>::infinity();

// 2026-11-22 12:01:02.345 UTC.
constexpr std::chrono::system_clock::time_point noon{std::chrono::milliseconds(1795348862345)};

StepMetrics sample_step() {
  return {.step = 7,
          .loss = static_cast<double>(1.5321F),
          .learning_rate = 1e-3,
          .grad_norm = 0.5,
          .items = 4096,
          .targets = 4096,
          .times = {{T::step, 125},
                    {T::forward, 40.1234},
                    {T::backward, 80},
                    {T::optimizer, 2},
                    {T::data_wait, 0.25},
                    {T::exposed_comm, 1.5},
                    {T::straggler, 2.5},
                    {T::bubble, 3.25},
                    {T::other, 0.5},
                    {T::core_wait, 1.75},
                    {T::reduce, 4.75}},
          .epoch = 7.0 / 12,
          .items_seen = 28672,
          .time = noon};
}

std::string json_of(const StepMetrics& metrics, ItemKind kind = ItemKind::tokens) {
  return format_json(metrics, kind);
}

TEST(Metrics, TimesBefore1970AreTimes) {
  StepMetrics metrics = sample_step();
  metrics.time = std::chrono::system_clock::time_point(std::chrono::milliseconds(-1500));
  EXPECT_NE(json_of(metrics).find(R"("timestamp":"1969-12-31T23:59:58.500Z")"), std::string::npos);
}

TEST(Metrics, AStepHasTheNumberOfCountedTargetsIfSomeAreIgnored) {
  StepMetrics metrics = sample_step();
  metrics.targets = 1000;

  EXPECT_NE(json_of(metrics).find(R"("grad_norm":0.5,"targets":1000,"epoch")"), std::string::npos);
}

TEST(Metrics, AStepIsOneJsonLine) {
  EXPECT_EQ(json_of(sample_step()),
            R"({"step":7,"loss":1.532099962234497,"lr":0.001,"grad_norm":0.5,)"
            R"("epoch":0.5833333333333334,"tokens_seen":28672,)"
            R"("tokens_per_s":32768.0,"step_ms":125.0,"forward_ms":40.123,)"
            R"("backward_ms":80.0,"optimizer_ms":2.0,"data_wait_ms":0.25,)"
            R"("exposed_comm_ms":1.5,"straggler_ms":2.5,"bubble_ms":3.25,"other_ms":0.5,)"
            R"("core_wait_ms":1.75,"reduce_ms":4.75,)"
            R"("timestamp":"2026-11-22T12:01:02.345Z"})"
            "\n");
}

TEST(Metrics, AStepWithKnownFlopsHasTheirRateAndShareOfThePeak) {
  StepMetrics metrics = sample_step();
  metrics.flops = 25e12;
  EXPECT_NE(
      json_of(metrics).find("\"tokens_per_s\":32768.0,\"model_gflops_per_s\":200000.0,\"step_ms\""),
      std::string::npos);
  metrics.peak_flops = 800e12;
  EXPECT_NE(json_of(metrics).find("\"model_gflops_per_s\":200000.0,\"mfu\":0.25,\"step_ms\""),
            std::string::npos);
}

TEST(Metrics, EnergyIsOnlyWrittenIfKnown) {
  StepMetrics metrics = sample_step();
  EXPECT_EQ(json_of(metrics).find("joules"), std::string::npos);
  metrics.joules = 12.3456;
  EXPECT_NE(json_of(metrics).find("\"reduce_ms\":4.75,\"joules\":12.346,"), std::string::npos)
      << json_of(metrics);
}

TEST(Metrics, ImagesHaveDifferentKeys) {
  EXPECT_NE(json_of(sample_step(), ItemKind::images)
                .find("\"images_seen\":28672,\"images_per_s\":32768.0"),
            std::string::npos);
}

TEST(Metrics, ALossScaleFollowsTheNormWhereThereIsOne) {
  StepMetrics metrics = sample_step();
  metrics.loss_scale = 65536;
  metrics.skipped_steps = 3;

  EXPECT_NE(json_of(metrics).find(R"("grad_norm":0.5,"loss_scale":65536.0,"skipped_steps":3,)"),
            std::string::npos)
      << json_of(metrics);
}

TEST(Metrics, StepsThatWereSkippedAreCounted) {
  StepMetrics metrics = sample_step();
  metrics.spikes = 0;
  metrics.non_finite_steps = 2;

  EXPECT_NE(json_of(metrics).find(R"("grad_norm":0.5,"spikes":0,"non_finite_steps":2,)"),
            std::string::npos)
      << json_of(metrics);
}

TEST(Metrics, ASkippedBatchNamesItsSamples) {
  EXPECT_EQ(
      format_json(SkippedBatch{.step = 12, .zscore = 7.25, .samples = {5, 0, 81}, .time = noon}),
      R"({"step":12,"skipped":"spike","deviations":7.25,"samples":[5,0,81],)"
      R"("timestamp":"2026-11-22T12:01:02.345Z"})"
      "\n");
}

TEST(Metrics, AFailedSaveHasItsReasonInJsonForAnyPath) {
  EXPECT_EQ(format_json(FailedSave{
                .step = 12, .problem = "rank 0: \"a\xff\": full", .in_a_row = 2, .time = noon}),
            "{\"step\":12,\"checkpoint_failed\":\"rank 0: \\\"a\xEF\xBF\xBD\\\": "
            "full\",\"failed_saves\":2,"
            "\"timestamp\":\"2026-11-22T12:01:02.345Z\"}\n");
}

TEST(Metrics, TheLossReadsBackToTheSameBits) {
  StepMetrics metrics = sample_step();
  for (const double loss : {1.0 / 3, 5e-324, 1.7976931348623157e308, 0.1 + 0.2, 12345678.9}) {
    metrics.loss = loss;

    const std::string line = json_of(metrics);

    const auto at = line.find("\"loss\":") + 7;
    EXPECT_EQ(std::strtod(line.c_str() + at, nullptr), loss) << line;
  }
}

TEST(Metrics, GradientNoiseIsOnlyInStepsThatMeasureIt) {
  StepMetrics metrics = sample_step();
  EXPECT_EQ(json_of(metrics).find("noise"), std::string::npos);
  metrics.noise_scale = 12.5;
  metrics.noise_trace = 24;
  metrics.noise_square = -0.25;

  EXPECT_NE(
      json_of(metrics).find("\"noise_scale\":12.5,\"noise_trace\":24.0,\"noise_square\":-0.25"),
      std::string::npos);
}

TEST(Metrics, ANonFiniteValueIsNullAndFlagged) {
  StepMetrics metrics = sample_step();
  metrics.loss = std::nan("");
  metrics.grad_norm = infinity;

  const std::string line = json_of(metrics);

  EXPECT_NE(line.find("\"loss\":null"), std::string::npos);
  EXPECT_NE(line.find("\"grad_norm\":null"), std::string::npos);
  EXPECT_TRUE(line.ends_with(",\"non_finite\":true}\n"));
}

TEST(Metrics, AnEvaluationHasAccuracyOnlyWhenMeasured) {
  EXPECT_EQ(format_json({.step = 3, .validation_loss = 1.25, .evaluation_ms = 10, .time = noon}),
            "{\"step\":3,\"validation_loss\":1.25,\"evaluation_ms\":10.0,"
            "\"timestamp\":\"2026-11-22T12:01:02.345Z\"}\n");
  EXPECT_EQ(format_json({.step = 3,
                         .validation_loss = 1.25,
                         .quality = {.accuracy = 0.5},
                         .evaluation_ms = 10,
                         .time = noon}),
            "{\"step\":3,\"validation_loss\":1.25,\"accuracy\":0.5,\"evaluation_ms\":10.0,"
            "\"timestamp\":\"2026-11-22T12:01:02.345Z\"}\n");
}

TEST(Metrics, AnEvaluationOfValuesHasTheirErrorAsAKeyOfItsOwn) {
  EXPECT_EQ(format_json({.step = 3,
                         .validation_loss = 1.25,
                         .quality = {.mae = 0.125},
                         .sources = {{"fine", 1, {.mae = 0.5}}},
                         .evaluation_ms = 10,
                         .time = noon}),
            "{\"step\":3,\"validation_loss\":1.25,\"mae\":0.125,\"validation\":{\"fine\":"
            "{\"loss\":1.0,\"mae\":0.5}},\"evaluation_ms\":10.0,"
            "\"timestamp\":\"2026-11-22T12:01:02.345Z\"}\n");
}

TEST(MetricsJson, NamesTheSourcesOfAnEvaluation) {
  EXPECT_EQ(format_json({.step = 3,
                         .validation_loss = 1.25,
                         .sources = {{"books", 1}, {"web \"2\"", std::nan("")}},
                         .evaluation_ms = 10,
                         .time = noon}),
            "{\"step\":3,\"validation_loss\":1.25,\"validation\":{\"books\":{\"loss\":1.0},"
            "\"web \\\"2\\\"\":{\"loss\":null}},\"evaluation_ms\":10.0,"
            "\"timestamp\":\"2026-11-22T12:01:02.345Z\",\"non_finite\":true}\n");
}

TEST(MetricsLog, KeepsOneLinePerCallInOrder) {
  const TemporaryDirectory directory;
  MetricsLog log(directory.file("metrics.jsonl"), ItemKind::tokens);

  log.step(sample_step());
  log.evaluation({.step = 7, .validation_loss = 2, .time = noon});

  EXPECT_EQ(read_text(log.path()), json_of(sample_step()) +
                                       "{\"step\":7,\"validation_loss\":2.0,\"evaluation_ms\":0.0,"
                                       "\"timestamp\":\"2026-11-22T12:01:02.345Z\"}\n");
}

TEST(MetricsLog, ARunThatGoesOnKnowsTheStepsThatItsCheckpointLacks) {
  const TemporaryDirectory directory;
  StepMetrics step = sample_step();
  {
    MetricsLog log(directory.file("metrics.jsonl"), ItemKind::tokens);
    EXPECT_EQ(log.lost().steps, 0);
    log.step(step);
    for (step.step = 8; step.step <= 10; ++step.step)
      log.step(step);
    log.evaluation({.step = 10, .validation_loss = 2, .evaluation_ms = 500, .time = noon});
  }

  const MetricsLog log(directory.file("metrics.jsonl"), ItemKind::tokens, 7);

  EXPECT_EQ(log.lost().steps, 3);
  EXPECT_NEAR(log.lost().seconds, 3 * 0.125 + 0.5, 1e-9);
  EXPECT_EQ(read_text(log.path()), json_of(sample_step()));
}

TEST(MetricsLog, RefusesAFileThatExists) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("metrics.jsonl");
  test::write_text(path, "");

  expect_error(
      ExitCode::internal, [&] { MetricsLog log(path, ItemKind::tokens); }, path, "is there");
}

TEST(MetricsLog, AFullDiskIsReportedOnceAndLeavesWholeLines) {
  const TemporaryDirectory directory;
  MetricsLog log(directory.file("metrics.jsonl"), ItemKind::tokens);
  log.step(sample_step());
  const std::string first = read_text(log.path());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  // Half of the next line fits: the system call writes that and returns its length.
  const rlimit small{first.size() * 3 / 2, before.rlim_max};
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);

  expect_error(
      ExitCode::internal, [&] { log.step(sample_step()); }, log.path(), "cannot be written",
      "run.directory");
  log.step(sample_step());

  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old_handler);
  log.step(sample_step());
  EXPECT_EQ(read_text(log.path()), first);
}

TEST(MetricsLog, AFailureBeforeTheFirstByteNamesTheReason) {
  const TemporaryDirectory directory;
  MetricsLog log(directory.file("metrics.jsonl"), ItemKind::tokens);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit none{0, before.rlim_max};
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);

  expect_error(
      ExitCode::internal, [&] { log.step(sample_step()); }, log.path(), "File too large");

  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old_handler);
}

}  // namespace
}  // namespace trireme
