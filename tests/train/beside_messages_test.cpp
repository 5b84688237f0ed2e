// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/step/beside_messages.h"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/parallel/schedule.h"

namespace trireme {
namespace {

std::vector<int> of_step(const MessageProcessors& left, int micro_batches) {
  std::vector<int> result;
  for (int m = 0; m < micro_batches; ++m)
    result.push_back(left.beside(m, micro_batches));
  return result;
}

TEST(BesideMessages, MatmulsLeaveRoomForTheDataGroupWhileItIsAtWork) {
  const auto data = [](int zero) {
    return MessageProcessors{.data = 16, .gather = 8, .zero = zero};
  };

  EXPECT_EQ(of_step(data(0), 3), (std::vector{0, 0, 16}));
  EXPECT_EQ(of_step(data(1), 3), (std::vector{8, 0, 16}));
  EXPECT_EQ(of_step(data(2), 3), (std::vector{24, 16, 16}));
  EXPECT_EQ(of_step(data(3), 3), (std::vector{24, 24, 24}));
}

TEST(BesideMessages, LinksAndSumsWithinLayersAreAtWorkAllTheStep) {
  const MessageProcessors left{
      .receives = 2, .link = 2, .tensor = 8, .data = 16, .gather = 16, .zero = 1};

  EXPECT_EQ(of_step(left, 3), (std::vector{28, 12, 28}));
}

// What is rehearsed before the first step is what its steps use.
TEST(BesideMessages, ValuesAreThoseOfSomeMicroBatch) {
  for (int zero = 0; zero <= 3; ++zero) {
    const MessageProcessors left{.receives = 1, .link = 2, .data = 16, .gather = 8, .zero = zero};
    const auto used = of_step(left, 3);
    const auto values = left.values();
    for (const int value : used)
      EXPECT_TRUE(values.contains(value)) << zero;
    EXPECT_EQ(left.everywhere(), used[1]);
    EXPECT_TRUE(values.contains(0)) << "evaluation";
  }
}

// Why a pipeline's links count as at work all the step: of the computations of all stages, those
// that have neither a receive ahead of them nor a send of the one before beside them.
TEST(BesideMessages, NearlyEveryComputationOfAPipelineIsBesideAMessage) {
  const auto alone = [](const ScheduleShape& shape) {
    int count = 0;
    for (int stage = 0; stage < shape.stages; ++stage) {
      int pending = 0;
      bool sent = false;
      for (const Action& action : stage_actions(shape, stage)) {
        if (!is_compute(action.kind)) {
          const bool receives =
              action.kind == ActionKind::recv_forward || action.kind == ActionKind::recv_backward;
          pending += receives ? 1 : 0;
          sent = sent || !receives;
          continue;
        }
        const int at = virtual_stage(shape, stage, action.chunk);
        const bool reads = (action.kind == ActionKind::forward && at > 0) ||
                           (action.kind == ActionKind::backward && at + 1 < virtual_stages(shape));
        pending -= reads ? 1 : 0;
        if (pending == 0 && !sent) ++count;
        sent = false;
      }
    }
    return count;
  };

  EXPECT_EQ(alone({.kind = ScheduleKind::one_f_one_b, .stages = 2, .micro_batches = 16}), 3)
      << "of 64";
  EXPECT_EQ(alone({.kind = ScheduleKind::one_f_one_b, .stages = 4, .micro_batches = 16}), 3)
      << "of 128";
  EXPECT_EQ(alone({.kind = ScheduleKind::zero_bubble, .stages = 8, .micro_batches = 16}), 46)
      << "of 384";
}

}  // namespace
}  // namespace trireme
