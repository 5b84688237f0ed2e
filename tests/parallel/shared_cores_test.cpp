// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "runtime/parallel/schedule_timeline.h"

namespace trireme {
namespace {

constexpr double transfer = 0.1;

Timeline timeline(const ScheduleShape& shape, PipelineResources resources) {
  resources.links = LinkModel::unlimited;
  return simulate(shape, uniform_costs(shape, 1, 1, 1, transfer), resources);
}

const std::vector<ScheduleShape> shapes = {
    {.kind = ScheduleKind::gpipe, .stages = 3, .micro_batches = 4},
    {.kind = ScheduleKind::one_f_one_b, .stages = 4, .micro_batches = 8},
    {.kind = ScheduleKind::interleaved, .stages = 2, .micro_batches = 4, .chunks = 2},
    {.kind = ScheduleKind::zero_bubble, .stages = 4, .micro_batches = 8}};

TEST(SharedCores, WithACoreForEachStageAreTheSchedulesOwnTimes) {
  for (const ScheduleShape& shape : shapes) {
    const Timeline own = simulate(shape, uniform_costs(shape, 1, 1, 1, transfer));
    const Timeline shared = timeline(shape, {.cores = static_cast<double>(shape.stages)});

    EXPECT_NEAR(shared.makespan, own.makespan, 1e-9) << name_of(shape.kind);
    for (std::size_t stage = 0; stage < own.stages.size(); ++stage) {
      for (std::size_t i = 0; i < own.stages[stage].size(); ++i)
        EXPECT_NEAR(shared.stages[stage][i].end, own.stages[stage][i].end, 1e-9);
    }
  }
}

TEST(SharedCores, OneCoreTakesAllWorkAtLeastOnce) {
  for (const ScheduleShape& shape : shapes) {
    const double work = 3.0 * virtual_stages(shape) * shape.micro_batches;

    EXPECT_GE(timeline(shape, {.cores = 1}).makespan, work - 1e-9) << name_of(shape.kind);
    EXPECT_LE(timeline(shape, {.cores = 1}).makespan, 1.1 * work) << name_of(shape.kind);
  }
}

TEST(SharedCores, AnUnblockedStageGetsAnEqualShare) {
  // Stage 0 runs alone, then both at half speed each, then stage 1 alone.
  const ScheduleShape shape{.kind = ScheduleKind::gpipe, .stages = 2, .micro_batches = 2};
  const Timeline both = simulate(shape, uniform_costs(shape, 1, 1, 1), {.cores = 1});

  EXPECT_NEAR(both.stages[0][0].end, 1, 1e-9);
  EXPECT_NEAR(both.stages[0][1].end, 3, 1e-9);
  EXPECT_NEAR(both.stages[1][0].end, 3, 1e-9);
}

TEST(SharedCores, WaitingForACoreDelaysOthers) {
  for (const ScheduleShape& shape : shapes) {
    EXPECT_GT(timeline(shape, {.cores = 2, .scheduling_delay = 0.5}).makespan,
              timeline(shape, {.cores = 2}).makespan)
        << name_of(shape.kind);
  }
}

}  // namespace
}  // namespace trireme
