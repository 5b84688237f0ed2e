// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/cta_cost.h"

#include <gtest/gtest.h>

#include "runtime/plan/step_time.h"
#include "tests/plan/plans.h"

namespace trireme::plan::test {
namespace {

constexpr int h100 = 132;

TEST(CtaCost, AMatmulThatLeavesNothingTakesASecondWave) {
  EXPECT_DOUBLE_EQ(matmul_slowdown(h100, 0, 0), 1);
  EXPECT_DOUBLE_EQ(matmul_slowdown(h100, 16, 0), 2);
  EXPECT_DOUBLE_EQ(matmul_slowdown(h100, 1, 0), 2);
  EXPECT_DOUBLE_EQ(matmul_slowdown(h100, 16, 16), 132.0 / 116);
  EXPECT_DOUBLE_EQ(matmul_slowdown(h100, 4, 4), 132.0 / 128);
  EXPECT_DOUBLE_EQ(matmul_slowdown(h100, 4, 2), 2 * 132.0 / 130) << "too few are left";
}

// 24 channels, as NCCL has them between the GPUs of an H100 node: 16, 8 and 4 of a receive.
TEST(CtaCost, AMessagesThreadBlocksFallWithTheRanksOfItsGroup) {
  EXPECT_EQ(channels_of(hardware_file("h100").links), 24);
  EXPECT_EQ(ctas_of_message(2, 24), 16);
  EXPECT_EQ(ctas_of_message(4, 24), 8);
  EXPECT_EQ(ctas_of_message(8, 24), 4);
  EXPECT_EQ(ctas_of_message(2, 2), 1);
  EXPECT_EQ(ctas_of_message(8, 2), 1);
}

TEST(CtaCost, FewThreadBlocksMoveFewerBytes) {
  const Links links = hardware_file("h100").links;

  EXPECT_EQ(bounded(links, 2).inside.bandwidth, 30e9);
  EXPECT_EQ(bounded(links, 2).between.bandwidth, 30e9);
  EXPECT_EQ(bounded(links, 16).between.bandwidth, links.between.bandwidth);
  EXPECT_EQ(bounded(links, 64).inside.bandwidth, links.inside.bandwidth);
  EXPECT_EQ(bounded(links, 0).inside.bandwidth, links.inside.bandwidth);
}

// 4 of 132 multiprocessors of all matmuls, and slower links, against what neither costs.
TEST(CtaCost, AStepPaysForWhatItsMatmulsLeave) {
  StepInput input = plan_input({.model = {.layers = 8,
                                          .hidden = 4096,
                                          .heads = 32,
                                          .kv_heads = 32,
                                          .ffn = 16384,
                                          .vocabulary = 1024,
                                          .context = 2048},
                                .mesh = {.pipeline = 4},
                                .micro_batches = 16});
  const Hardware hardware = hardware_file("h100");
  const StepEstimate without = estimate_step(input, hardware);
  input.ctas = {.link = 2, .data = 16, .receives = 2, .left = 4};
  const StepEstimate with = estimate_step(input, hardware);

  EXPECT_GT(with.forward, without.forward);
  EXPECT_LT(with.forward, without.forward * 132 / 128);
  EXPECT_GT(with.pipeline_exposed, without.pipeline_exposed);
  input.ctas.left = 0;
  EXPECT_GT(estimate_step(input, hardware).forward, 1.5 * without.forward);
}

}  // namespace
}  // namespace trireme::plan::test
