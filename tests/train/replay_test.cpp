// SPDX-License-Identifier: Apache-2.0
// What other buckets, schedules and cuts would have taken, from times that are given.
#include <gmock/gmock.h>

#include "runtime/train/meters/reduce_replay.h"
#include "runtime/train/meters/stage_replay.h"

namespace trireme {
namespace {

using testing::ElementsAre;

constexpr ScheduleShape two_stages{.stages = 2, .micro_batches = 4};

TEST(ReduceReplay, NeighboursJoinUntilABucketIsFull) {
  const std::vector<std::int64_t> buckets{10, 10, 10, 50, 10};

  EXPECT_THAT(joined_buckets(buckets, 1), ElementsAre(10, 10, 10, 50, 10));
  EXPECT_THAT(joined_buckets(buckets, 20), ElementsAre(20, 60, 10));
  EXPECT_THAT(joined_buckets(buckets, 1000), ElementsAre(90));
}

TEST(ReduceReplay, OnlyWhatBackwardDoesNotHideIsExposed) {
  const std::vector<std::int64_t> buckets{100, 100};

  // Ready at 5 and 10 ms. Each takes 2 ms: the first is hidden, the second follows the pass.
  EXPECT_DOUBLE_EQ(exposed_reduction(buckets, 10, {.call = 1, .element = 0.01}), 2);
  // Each takes 8 ms: the second waits for the first, which ends 3 ms behind the pass.
  EXPECT_DOUBLE_EQ(exposed_reduction(buckets, 10, {.call = 8}), 11);
  EXPECT_DOUBLE_EQ(exposed_reduction({}, 10, {.call = 8}), 0);
}

TEST(ReduceReplay, LargerBucketsSaveCallsAndLoseOverlap) {
  const std::vector<std::int64_t> buckets(16, 100);
  const auto joined = joined_buckets(buckets, 400);

  const ReduceCost calls{.call = 2}, elements{.element = 0.01};
  EXPECT_LT(exposed_reduction(joined, 16, calls), exposed_reduction(buckets, 16, calls));
  EXPECT_GT(exposed_reduction(joined, 16, elements), exposed_reduction(buckets, 16, elements));
}

TEST(StageReplay, OneStageHasNoBubble) {
  const Costs costs = uniform_costs(two_stages, 1, 2, 0);

  // 5 of 4 micro-batches' passes beside 2 of twice the length.
  EXPECT_DOUBLE_EQ(length_of_step(two_stages, costs, 2), 15);
  EXPECT_DOUBLE_EQ(with_half_the_stages(two_stages, costs, 2), 12);
}

TEST(StageReplay, AnotherScheduleTakesWhatItsOwnPassesCost) {
  const Costs even = uniform_costs(two_stages, 1, 1, 1);
  const Costs costly = uniform_costs(two_stages, 1, 1.5, 1);

  EXPECT_DOUBLE_EQ(with_zero_bubble(two_stages, even, 2), 13);
  EXPECT_GT(with_zero_bubble(two_stages, costly, 2), 14.5);
  EXPECT_DOUBLE_EQ(with_half_micro_batches(two_stages, uniform_costs(two_stages, 0.5, 1, 0), 2),
                   13.5);
}

// In the bubble of one stage another has to itself what they share when both compute.
TEST(StageReplay, WhatStagesShareABubbleDoesNotCost) {
  constexpr double cores = 1.25;
  const Costs whole = uniform_costs(two_stages, 1, 2, 0),
              split = uniform_costs(two_stages, 1, 1, 1);
  const auto gain = [](double other, double now) { return 1 - other / now; };

  const double now = length_of_step(two_stages, whole, cores);
  EXPECT_GT(now, 15);
  EXPECT_DOUBLE_EQ(with_half_the_stages(two_stages, whole, cores), 12 * 2 / cores);
  EXPECT_LT(gain(with_half_the_stages(two_stages, whole, cores), now), gain(12, 15));
  EXPECT_LT(gain(with_zero_bubble(two_stages, split, cores), now), gain(13, 15));
  // With no more than one core for both nothing is gained.
  EXPECT_NEAR(length_of_step(two_stages, whole, 1), 24, 1e-9);
  EXPECT_NEAR(with_half_the_stages(two_stages, whole, 1), 24, 1e-9);
}

TEST(StageReplay, WhatHasNoScheduleIsZero) {
  ScheduleShape shape = two_stages;
  const Costs costs = uniform_costs(shape, 1, 2, 0);
  shape.micro_batches = 3;
  EXPECT_EQ(with_half_the_stages(shape, costs, 2), 0) << "of an odd number of micro-batches";

  shape.kind = ScheduleKind::zero_bubble;
  EXPECT_EQ(with_zero_bubble(shape, costs, 2), 0) << "it is that already";
}

TEST(StageReplay, AnotherCutCostsWhatItsLayersDo) {
  const std::vector<LayerSummary> layers{{.name = "block", .forward_flops = 10},
                                         {.name = "block", .forward_flops = 10},
                                         {.name = "block", .forward_flops = 10},
                                         {.name = "block", .forward_flops = 10}};
  const StagePlan present{{0, 1, 4}}, balanced{{0, 2, 4}};
  const Costs costs{{1, 3}, {2, 6}, {0, 0}};

  const auto other = costs_of_cut(costs, layers, present, balanced);

  ASSERT_TRUE(other.has_value());
  EXPECT_THAT(other->forward, ElementsAre(2, 2));
  EXPECT_THAT(other->backward, ElementsAre(4, 4));
}

TEST(StageReplay, StagesThatTakeOtherThanTheirFlopsSayAreNotReplayed) {
  const std::vector<LayerSummary> layers{{.name = "block", .forward_flops = 10},
                                         {.name = "block", .forward_flops = 10}};
  const StagePlan present{{0, 1, 2}};

  EXPECT_FALSE(costs_of_cut({{1, 3}, {2, 6}, {0, 0}}, layers, present, present));
}

}  // namespace
}  // namespace trireme
