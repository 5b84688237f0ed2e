// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/schedule_timeline.h"

#include <gtest/gtest.h>

#include <cmath>

#include "runtime/parallel/schedule_check.h"
#include "tests/parallel/schedules.h"
#include "tests/support/expect_error.h"

namespace trireme {
namespace {

Timeline uniform(const ScheduleShape& shape, double transfer = 0) {
  return simulate(shape, uniform_costs(shape, 1, 1, 1, transfer));
}

TEST(Timeline, GpipeAndOneForwardOneBackwardHaveTheirKnownBubble) {
  for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b}) {
    for (int stages = 1; stages <= 9; ++stages) {
      for (const int micro_batches : {1, 2, 7, 16, 33}) {
        const Timeline timeline = uniform({kind, stages, micro_batches, 1});
        const double expected = (stages - 1.0) / (micro_batches + stages - 1.0);
        EXPECT_NEAR(timeline.bubble, expected, 1e-12) << stages << " " << micro_batches;
        EXPECT_NEAR(timeline.makespan, 3.0 * (micro_batches + stages - 1), 1e-9);
      }
    }
  }
}

TEST(Timeline, InterleavingDividesTheBubbleByTheChunks) {
  for (int stages = 2; stages <= 6; ++stages) {
    for (int chunks = 2; chunks <= 4; ++chunks) {
      for (int groups = 1; groups <= 5; ++groups) {
        const int micro_batches = groups * stages;
        const Timeline timeline =
            uniform({ScheduleKind::interleaved, stages, micro_batches, chunks});
        const double expected = (stages - 1.0) / (micro_batches * chunks + stages - 1.0);
        EXPECT_NEAR(timeline.bubble, expected, 1e-12) << stages << " " << chunks << " " << groups;
      }
    }
  }
}

TEST(Timeline, ZeroBubbleLeavesAThirdOfTheBubble) {
  for (int stages = 2; stages <= 9; ++stages) {
    for (const int micro_batches : {stages, 2 * stages, 2 * stages + 3, 40}) {
      const Timeline split = uniform({ScheduleKind::zero_bubble, stages, micro_batches, 1});
      EXPECT_NEAR(split.makespan, 3.0 * micro_batches + stages - 1, 1e-9) << stages;
    }
    for (int few = 1; few < stages; ++few) {
      EXPECT_LT(uniform({ScheduleKind::zero_bubble, stages, few, 1}).bubble,
                uniform({ScheduleKind::one_f_one_b, stages, few, 1}).bubble);
    }
  }
}

TEST(Timeline, ZeroBubbleBeatsOneForwardOneBackwardWithTransfersToo) {
  for (const double transfer : {0.02, 0.1, 0.3}) {
    for (const int stages : {2, 4, 8}) {
      for (const int micro_batches : {8, 32}) {
        EXPECT_LT(
            uniform({ScheduleKind::zero_bubble, stages, micro_batches, 1}, transfer).makespan,
            uniform({ScheduleKind::one_f_one_b, stages, micro_batches, 1}, transfer).makespan);
      }
    }
  }
}

TEST(Timeline, NoStageHoldsMoreThanTheKindPromises) {
  for (const ScheduleShape& shape : test::supported_shapes(6, 18, 3)) {
    const Timeline timeline = uniform(shape);
    for (int stage = 0; stage < shape.stages; ++stage) {
      EXPECT_LE(timeline.peak_in_flight[static_cast<std::size_t>(stage)],
                in_flight_bound(shape, stage))
          << testing::PrintToString(shape);
    }
  }
  EXPECT_EQ(uniform({ScheduleKind::one_f_one_b, 4, 16, 1}).peak_in_flight,
            (std::vector{4, 3, 2, 1}));
  EXPECT_EQ(uniform({ScheduleKind::gpipe, 2, 16, 1}).peak_in_flight, (std::vector{16, 16}));
  EXPECT_EQ(uniform({ScheduleKind::zero_bubble, 4, 16, 1}).peak_in_flight,
            (std::vector{4, 4, 4, 4}));
}

TEST(Timeline, AddsUpByHandForOneMicroBatchOnTwoStages) {
  const ScheduleShape shape{ScheduleKind::one_f_one_b, 2, 1, 1};

  const Timeline timeline = simulate(shape, {{1, 2}, {3, 4}, {0.5, 0.25}, 0.125});

  // F 0..1, transfer, F 1.125..3.125, B 3.125..7.375, transfer, B 7.5..11
  ASSERT_EQ(timeline.stages[1].size(), 2U);
  EXPECT_DOUBLE_EQ(timeline.stages[1][0].start, 1.125);
  EXPECT_DOUBLE_EQ(timeline.stages[1][1].end, 7.375);
  EXPECT_DOUBLE_EQ(timeline.makespan, 11);
  EXPECT_EQ(timeline.busy, (std::vector{4.5, 6.25}));
  EXPECT_DOUBLE_EQ(timeline.bubble, 1 - 10.75 / 22);
}

TEST(Timeline, SendsDoNotHoldUpComputations) {
  const Timeline timeline = uniform({ScheduleKind::gpipe, 2, 3, 1}, 5);

  for (std::size_t m = 0; m < 3; ++m)
    EXPECT_DOUBLE_EQ(timeline.stages[0][m].start, static_cast<double>(m));
  // Transfers use the channel one after another; the first is ready at 1.
  for (std::size_t m = 0; m < 3; ++m)
    EXPECT_DOUBLE_EQ(timeline.stages[1][m].start, 1 + 5 * static_cast<double>(m + 1));
}

TEST(Timeline, AReceivePostedLateHoldsUpTheSend) {
  Schedule schedule = make_schedule({ScheduleKind::gpipe, 2, 2, 1});
  auto& list = schedule.actions[1];
  ASSERT_EQ(list[1], (Action{ActionKind::recv_forward, 0, 1}));
  std::swap(list[1], list[2]);  // behind the first forward

  const Timeline timeline = simulate(schedule, uniform_costs(schedule.shape, 1, 1, 1, 0.5));

  EXPECT_DOUBLE_EQ(timeline.stages[1][0].end, 2.5);
  EXPECT_DOUBLE_EQ(timeline.stages[1][1].start, 3);  // sent from 2 on would have been there in time
}

TEST(Timeline, TheSlowestStageSetsThePaceOfALongStep) {
  const ScheduleShape shape{ScheduleKind::one_f_one_b, 4, 200, 1};
  Costs costs = uniform_costs(shape, 1, 1, 1);
  costs.forward[2] = 3;

  const Timeline timeline = simulate(shape, costs);

  EXPECT_GE(timeline.makespan, 200 * 5);
  EXPECT_LT(timeline.makespan, 200 * 5 * 1.05);
}

TEST(Timeline, ComputationsOfAStageDoNotOverlap) {
  for (const ScheduleShape& shape : test::supported_shapes(4, 8, 2)) {
    const Timeline timeline = uniform(shape, 0.3);
    EXPECT_TRUE(timeline.deadlock.empty());
    for (const auto& spans : timeline.stages) {
      for (std::size_t i = 1; i < spans.size(); ++i)
        EXPECT_GE(spans[i].start, spans[i - 1].end);
    }
  }
}

TEST(Timeline, RefusesCostsOfAnotherShape) {
  test::expect_error(
      ExitCode::internal,
      [] {
        const ScheduleShape shape{ScheduleKind::gpipe, 2, 2, 1};
        (void)simulate(shape, {{1}, {1, 1}, {1, 1}, 0});
      },
      "1, 2 and 2 virtual stages for 2");
}

}  // namespace
}  // namespace trireme
