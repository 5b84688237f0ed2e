// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "launch/bench/model/calibrate.h"
#include "launch/bench/model/profile.h"
#include "launch/plan/step_plan.h"
#include "models/config.h"
#include "models/gpt/gpt.h"
#include "runtime/plan/hardware.h"
#include "tests/support/command.h"

namespace trireme::test {
namespace {

constexpr const char* small_gpt =
    "precision: fp32\n"
    "model: {family: gpt2, layers: 2, hidden: 64, heads: 4, context: 32, vocabulary: 64}\n"
    "data: {path: data/none}\n"
    "train: {global_batch: 8, micro_batch: 2}\n"
    "parallel: {tensor: 2, zero: 1}\n";

Config one_rank_config() {
  Provenance where;
  const Config given = parse_config(small_gpt, "small.yaml", {}, &where);
  return model_bench::on_one_rank(given, {.ranks = 4}, where);
}

plan::StepEstimate estimate(const Config& config, const plan::Hardware& hardware) {
  return plan::estimate_step(StepPlanner().input(config), hardware);
}

double passes(const Config& config, const plan::Hardware& hardware) {
  const plan::StepEstimate step = estimate(config, hardware);
  return step.forward + step.backward;
}

plan::Hardware calibrated(const std::vector<model_bench::TimedModel>& models,
                          double products = 1e11) {
  plan::Hardware hardware;
  hardware.node.cores = 2;
  model_bench::calibrate(hardware, models, {.flops = products, .half_dimension = 50},
                         /*launch=*/1e-7);
  return hardware;
}

TEST(BenchModel, CalibratesToWhatWasMeasured) {
  const Config config = one_rank_config();
  for (const double products : {1e9, 1e12}) {
    const plan::Hardware hardware =
        calibrated({{config, {.forward = 0.010, .backward = 0.021, .optimizer = 0.003}}}, products);

    EXPECT_NEAR(passes(config, hardware), 0.031, 1e-5);
    EXPECT_NEAR(estimate(config, hardware).optimizer, 0.003, 1e-5);
    EXPECT_LE(hardware.efficiency.matmul, 1);
  }
}

TEST(BenchModel, CalibratesToTwoSizesAtOnce) {
  const Config small = one_rank_config(), large = model_bench::larger_model(small).value();
  // A machine with a given rate and half dimension.
  plan::Hardware truth =
      calibrated({{large, {.forward = 0.3, .backward = 0.6, .optimizer = 0.02}}});
  truth.efficiency.half_dimension = 90;

  const auto measure = [&](const Config& config) {
    const plan::StepEstimate step = estimate(config, truth);
    return model_bench::TimedModel{
        config, {.forward = step.forward, .backward = step.backward, .optimizer = step.optimizer}};
  };
  const plan::Hardware found = calibrated({measure(small), measure(large)});

  EXPECT_NEAR(passes(small, found) / passes(small, truth), 1, 1e-3);
  EXPECT_NEAR(passes(large, found) / passes(large, truth), 1, 1e-3);
  EXPECT_NEAR(found.efficiency.half_dimension, 90, 1);
  // A size between them.
  Config between = small;
  between.model.as<GptOptions>().hidden = 256;
  EXPECT_NEAR(passes(between, found) / passes(between, truth), 1, 0.02);
}

TEST(BenchModel, SharesTheErrorWhereSmallProductsAreFasterThanLargeOnes) {
  const Config small = one_rank_config(), large = model_bench::larger_model(small).value();
  // Memory-bound work does not depend on the share.
  const double least = 1e-3;
  const plan::Hardware hardware =
      calibrated({{small, {.forward = least, .backward = least, .optimizer = 1e-4}},
                  {large, {.forward = 1, .backward = 2, .optimizer = 1e-3}}});

  EXPECT_EQ(hardware.efficiency.half_dimension, 0);
  EXPECT_NEAR(passes(small, hardware) / (2 * least) * passes(large, hardware) / 3, 1, 1e-3);
}

TEST(BenchModel, GivesTheRateOfAnotherPrecision) {
  Config config = one_rank_config();
  plan::Hardware hardware = calibrated({{config, {.forward = 0.01, .backward = 0.02}}});
  config.precision = Precision::bf16;

  model_bench::calibrate_peak(hardware, {config, {.forward = 0.004, .backward = 0.008}});

  EXPECT_NEAR(passes(config, hardware), 0.012, 1e-5);
  EXPECT_GT(hardware.flops(Precision::bf16), hardware.flops(Precision::fp32));
}

TEST(BenchModel, HasALargerSizeForNarrowTransformersOnly) {
  Config config = one_rank_config();
  EXPECT_TRUE(model_bench::larger_model(config));
  config.model.as<GptOptions>().hidden = 1024;
  EXPECT_FALSE(model_bench::larger_model(config));
  config.model.family = "resnet";
  config.model.as<GptOptions>().hidden = 64;
  EXPECT_FALSE(model_bench::larger_model(config));
}

TEST(BenchModel, TakesTheModelOfAParallelConfigToOneRank) {
  const Config config = one_rank_config();

  EXPECT_EQ(config.parallel.tensor, 1);
  EXPECT_EQ(config.parallel.data, 1);
  EXPECT_EQ(config.parallel.zero, 0);
  EXPECT_EQ(config.train.global_batch, 4);
  EXPECT_EQ(config.model.as<GptOptions>().hidden, 64);
}

TEST(BenchModel, WritesAHardwareFileThatThePlannerReads) {
  const TemporaryDirectory directory;
  const std::string config = directory.path() + "/small.yaml",
                    out = directory.path() + "/here.yaml";
  write_file(config, small_gpt);
  for (const int ranks : {1, 2}) {
    const std::string bench =
        fmt::format("{} -np {} {} bench machine {} --seconds 0 --accept-load --out {} 2>&1",
                    TRIREME_MPIEXEC, ranks, TRIREME_BINARY, config, out);
    CommandResult result = run_command(bench);
    // On busy cores, small messages can take as long as large ones.
    for (int more = 0; more < 4 && result.output.find("take no longer than") != std::string::npos;
         ++more)
      result = run_command(bench);
    ASSERT_EQ(result.exit_code, 0) << result.output;

    const plan::Hardware hardware = plan::load_hardware(out);
    EXPECT_GT(hardware.flops(Precision::fp32), 0);
    EXPECT_GT(hardware.device.memory_bandwidth, 0);
    EXPECT_GE(hardware.node.cores, 1);
    EXPECT_GE(hardware.node.crowded_slowdown, 1);
    EXPECT_GE(hardware.links.domain, ranks);
    EXPECT_GT(hardware.links.inside.bandwidth, 0);
    EXPECT_EQ(read_file(out).find("links were not") == std::string::npos, ranks == 2);
    std::filesystem::remove(out);
  }
}

TEST(BenchModel, RefusesToDescribeAMachineThatOthersUse) {
  const TemporaryDirectory directory;
  const std::string config = directory.path() + "/small.yaml",
                    out = directory.path() + "/here.yaml";
  write_file(config, small_gpt);
  const std::string bench =
      fmt::format("{} bench machine {} --seconds 0.5 --out {}", TRIREME_BINARY, config, out);

  const std::string beside = directory.path() + "/beside.sh";
  // The other processes end with the command, even if the test fails.
  write_file(beside,
             "for i in 1 2 3; do sh -c 'while kill -0 '$$' 2>/dev/null; do i=0; "
             "while [ $i -lt 20000 ]; do i=$((i+1)); done; done' & done\n" +
                 fmt::format("exec {}\n", bench));

  const CommandResult refused = run_command(fmt::format("bash {} 2>&1", beside));

  EXPECT_EQ(refused.exit_code, 1) << refused.output;
  EXPECT_NE(refused.output.find("here.yaml is not written, because other processes"),
            std::string::npos)
      << refused.output;
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST(BenchModel, ProfilesEveryOperationOfAStep) {
  const auto device = Device::create(DeviceType::cpu);

  const model_bench::StepProfile profile = model_bench::profile_step(*device, one_rank_config(), 0);

  double inside = 0, flops = 0, calls = 0, lost = profile.seconds;
  for (const model_bench::OperationTime& each : profile.operations) {
    EXPECT_GT(each.seconds, 0) << each.name;
    EXPECT_LE(each.lost, std::min(each.seconds, lost)) << each.name;
    lost = each.lost;
    inside += each.seconds;
    if (each.name == "linear_forward") {
      calls += each.calls;
      flops += each.traffic.flops;
    }
  }
  EXPECT_GE(profile.steps, 5);
  EXPECT_LT(inside, profile.seconds) << "a step takes no less than its operations";
  // In each of two micro-batches of 64 tokens, 4 per layer and the logits.
  EXPECT_EQ(calls, 2 * (2 * 4 + 1));
  EXPECT_EQ(flops, 2.0 * 2 * 64 * (2 * 12 * 64 * 64 + 64 * 64));
  const std::string text = to_text(profile);
  EXPECT_NE(text.find("layer_norm_backward"), std::string::npos) << text;
  EXPECT_NE(text.find("outside of operations"), std::string::npos) << text;
}

}  // namespace
}  // namespace trireme::test
