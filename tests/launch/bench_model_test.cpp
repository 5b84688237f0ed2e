// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "launch/bench/model/measure.h"
#include "launch/plan/step_plan.h"
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

TEST(BenchModel, CalibratesToWhatWasMeasured) {
  const Config config = one_rank_config();
  for (const double products : {1e9, 1e12}) {
    plan::Hardware hardware;
    hardware.node.cores = 2;
    const model_bench::StepSeconds steps{.forward = 0.010, .backward = 0.021, .optimizer = 0.003};

    model_bench::calibrate(hardware, config, steps, {.flops = products, .half_dimension = 50},
                           /*launch=*/1e-7);

    const plan::StepEstimate step = plan::estimate_step(StepPlanner().input(config), hardware);
    EXPECT_NEAR(step.forward + step.backward, 0.031, 1e-5);
    EXPECT_NEAR(step.optimizer, 0.003, 1e-5);
    EXPECT_LE(hardware.efficiency.matmul, 1);
  }
}

TEST(BenchModel, TakesTheModelOfAParallelConfigToOneRank) {
  const Config config = one_rank_config();

  EXPECT_EQ(config.parallel.tensor, 1);
  EXPECT_EQ(config.parallel.data, 1);
  EXPECT_EQ(config.parallel.zero, 0);
  EXPECT_EQ(config.train.global_batch, 4);
  EXPECT_EQ(config.model.hidden, 64);
}

TEST(BenchModel, WritesAHardwareFileThatThePlannerReads) {
  const TemporaryDirectory directory;
  const std::string config = directory.path() + "/small.yaml",
                    out = directory.path() + "/here.yaml";
  write_file(config, small_gpt);
  for (const int ranks : {1, 2}) {
    const CommandResult result =
        run_command(fmt::format("{} -np {} {} bench model {} --seconds 0 --out {} 2>&1",
                                TRIREME_MPIEXEC, ranks, TRIREME_BINARY, config, out));
    ASSERT_EQ(result.exit_code, 0) << result.output;

    const plan::Hardware hardware = plan::load_hardware(out);
    EXPECT_GT(hardware.flops(plan::Precision::fp32), 0);
    EXPECT_GT(hardware.device.memory_bandwidth, 0);
    EXPECT_GE(hardware.node.cores, 1);
    EXPECT_GE(hardware.node.crowded_slowdown, 1);
    EXPECT_GE(hardware.links.domain, ranks);
    EXPECT_GT(hardware.links.inside.bandwidth, 0);
    EXPECT_EQ(read_file(out).find("links were not") == std::string::npos, ranks == 2);
    std::filesystem::remove(out);
  }
}

}  // namespace
}  // namespace trireme::test
