// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/stage_plan.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace trireme {
namespace {

// Layer i hands on a tensor of i + 1 elements.
std::vector<LayerSummary> layers_of(const std::vector<double>& flops) {
  std::vector<LayerSummary> layers;
  for (const double cost : flops) {
    layers.push_back({.name = "layer",
                      .forward_flops = cost,
                      .output = Shape{static_cast<std::int64_t>(layers.size()) + 1},
                      .held = static_cast<std::int64_t>(layers.size()) + 1,
                      .handed_on = static_cast<std::int64_t>(layers.size()) + 1});
  }
  return layers;
}

const std::vector<LayerSummary> dear_ends =
    layers_of({4, 1, 1, 1, 1, 1, 1, 1, 1, 4});  // ten layers

std::vector<ScheduleShape> shapes() {
  std::vector<ScheduleShape> all;
  for (int stages = 1; stages <= 5; ++stages) {
    for (const auto kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b,
                            ScheduleKind::interleaved, ScheduleKind::zero_bubble}) {
      const ScheduleShape shape{.kind = kind,
                                .stages = stages,
                                .micro_batches = 2 * stages,
                                .chunks = kind == ScheduleKind::interleaved ? 2 : 1};
      if (!unsupported(shape)) all.push_back(shape);
    }
  }
  return all;
}

TEST(StagePlan, GivesEveryLayerToOneStageInChainOrder) {
  for (const ScheduleShape& shape : shapes()) {
    const StagePlan plan = plan_stages(dear_ends, shape);

    std::vector<int> owner(dear_ends.size(), -1);
    for (int stage = 0; stage < shape.stages; ++stage) {
      const auto spans = plan.chunks(shape, stage, true);
      ASSERT_EQ(spans.size(), static_cast<std::size_t>(shape.chunks));
      for (const ChunkSpan& span : spans) {
        EXPECT_LT(span.first, span.last);
        for (int layer = span.first; layer < span.last; ++layer) {
          EXPECT_EQ(owner.at(static_cast<std::size_t>(layer)), -1) << "layer " << layer;
          owner[static_cast<std::size_t>(layer)] = stage;
        }
      }
    }
    for (int layer = 0; layer < static_cast<int>(owner.size()); ++layer)
      EXPECT_EQ(plan.stage_of_layer(layer, shape), owner[static_cast<std::size_t>(layer)]);
    for (int v = 0; v < virtual_stages(shape); ++v)
      EXPECT_EQ(owner[static_cast<std::size_t>(plan.first_layer[static_cast<std::size_t>(v)])],
                v % shape.stages);
  }
}

TEST(StagePlan, BalancesByCost) {
  const StagePlan plan = plan_stages(dear_ends, {.stages = 2, .micro_batches = 2});

  EXPECT_EQ(plan.first_layer, (std::vector<int>{0, 5, 10}));
  EXPECT_EQ(plan_stages(layers_of({9, 1, 1, 1}), {.stages = 2, .micro_batches = 2}).first_layer,
            (std::vector<int>{0, 1, 4}));
}

TEST(StagePlan, TakesTheLayersPerStageThatItIsGiven) {
  const std::vector<std::int64_t> wanted{1, 7, 2};

  const StagePlan plan = plan_stages(dear_ends, {.stages = 3, .micro_batches = 3}, wanted);

  EXPECT_EQ(plan.first_layer, (std::vector<int>{0, 1, 8, 10}));
}

TEST(StagePlan, NamesTheShapeThatEachChunkReceives) {
  const ScheduleShape shape{
      .kind = ScheduleKind::interleaved, .stages = 2, .micro_batches = 2, .chunks = 2};
  const std::vector<std::int64_t> wanted{3, 2, 4, 1};
  const StagePlan plan = plan_stages(dear_ends, shape, wanted);

  EXPECT_EQ(plan.inputs(shape, 0, dear_ends), (std::vector{Handover{}, Handover{Shape{5}}}));
  EXPECT_EQ(plan.inputs(shape, 1, dear_ends),
            (std::vector{Handover{Shape{3}}, Handover{Shape{9}}}));
}

TEST(StagePlan, GivesTheSlotsOfTheScheduleInTrainingAndOneOtherwise) {
  for (const ScheduleShape& shape : shapes()) {
    const StagePlan plan = plan_stages(dear_ends, shape);
    for (int stage = 0; stage < shape.stages; ++stage) {
      const auto training = plan.chunks(shape, stage, true),
                 inference = plan.chunks(shape, stage, false);
      for (int chunk = 0; chunk < shape.chunks; ++chunk) {
        const auto at = static_cast<std::size_t>(chunk);
        EXPECT_EQ(training[at].slots, slots(shape, stage, chunk));
        EXPECT_EQ(inference[at].slots, 1);
      }
    }
  }
}

TEST(StagePlan, RefusesLayersPerStageThatDoNotFitTheChain) {
  const ScheduleShape two{.stages = 2, .micro_batches = 2};
  const std::vector<std::int64_t> too_few{4, 5}, too_many_stages{4, 5, 1};

  test::expect_error(
      ExitCode::internal, [&] { static_cast<void>(plan_stages(dear_ends, two, too_few)); },
      "2 stages with 9 layers", "2 stages and 10 layers");
  test::expect_error(
      ExitCode::internal, [&] { static_cast<void>(plan_stages(dear_ends, two, too_many_stages)); },
      "3 stages with 10 layers");
}

}  // namespace
}  // namespace trireme
