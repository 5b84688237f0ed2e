// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/schedule.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "tests/parallel/schedules.h"
#include "tests/support/expect_error.h"

namespace trireme {
namespace {

using test::text_of_list;
using testing::AllOf;
using testing::HasSubstr;

std::string list_of(const ScheduleShape& shape, int stage) {
  return text_of_list(shape, stage_actions(shape, stage));
}

// The computations alone.
std::string computations_of(const ScheduleShape& shape, int stage) {
  std::vector<Action> kept;
  for (const Action& action : stage_actions(shape, stage)) {
    if (is_compute(action.kind)) kept.push_back(action);
  }
  return text_of_list(shape, kept);
}

TEST(Schedule, OneForwardOneBackwardAlternatesAfterItsWarmUp) {
  const ScheduleShape shape{ScheduleKind::one_f_one_b, 2, 3, 1};

  EXPECT_EQ(list_of(shape, 0), "F0 SF0 RB0 F1 SF1 RB1 B0 F2 SF2 RB2 B1 B2");
  EXPECT_EQ(list_of(shape, 1), "RF0 RF1 F0 B0 SB0 RF2 F1 B1 SB1 F2 B2 SB2");
}

TEST(Schedule, GpipeRunsAllForwardsBeforeAllBackwards) {
  const ScheduleShape shape{ScheduleKind::gpipe, 2, 2, 1};

  EXPECT_EQ(list_of(shape, 0), "F0 SF0 RB0 F1 SF1 RB1 B0 B1");
  EXPECT_EQ(list_of(shape, 1), "RF0 RF1 F0 F1 B0 SB0 B1 SB1");
}

TEST(Schedule, InterleavedPassesGroupsOfMicroBatchesThroughTheChunks) {
  const ScheduleShape shape{ScheduleKind::interleaved, 2, 2, 2};

  EXPECT_EQ(computations_of(shape, 0), "F0.0 F1.0 F0.1 F1.1 B0.1 B1.1 B0.0 B1.0");
  EXPECT_EQ(computations_of(shape, 1), "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 B0.0 B1.0");
  EXPECT_EQ(computations_of({ScheduleKind::interleaved, 2, 4, 2}, 1),
            "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0");
}

TEST(Schedule, ZeroBubbleKeepsWeightGradientsForTheEndOfTheStep) {
  const ScheduleShape shape{ScheduleKind::zero_bubble, 3, 4, 1};

  EXPECT_EQ(computations_of(shape, 0), "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3");
  EXPECT_EQ(computations_of(shape, 2), "F0 B0 F1 B1 F2 W0 B2 F3 B3 W1 W2 W3");
}

TEST(Schedule, OneStageTransfersNothing) {
  for (const ScheduleKind kind :
       {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::zero_bubble}) {
    const ScheduleShape shape{kind, 1, 2, 1};

    EXPECT_EQ(list_of(shape, 0), computations_of(shape, 0));
  }
}

TEST(Schedule, ReceivesAreOneComputationEarly) {
  int checked = 0;
  for (const ScheduleShape& shape : test::supported_shapes(6, 12, 3)) {
    for (int stage = 0; stage < shape.stages; ++stage) {
      std::vector<Action> received_before;  // receives listed before the previous computation
      std::vector<Action> received;
      Action previous{ActionKind::forward, -1, -1};
      for (const Action& action : stage_actions(shape, stage)) {
        if (!is_compute(action.kind)) {
          received.push_back(action);
          continue;
        }
        const bool forward = action.kind == ActionKind::forward;
        const Action needed{forward ? ActionKind::recv_forward : ActionKind::recv_backward,
                            action.chunk, action.micro_batch};
        const Action own_forward{ActionKind::forward, action.chunk, action.micro_batch};
        if (std::ranges::count(received, needed) > 0 && previous.chunk >= 0 &&
            previous != own_forward) {
          ++checked;
          EXPECT_EQ(std::ranges::count(received_before, needed), 1)
              << testing::PrintToString(shape) << ", stage " << stage << ", "
              << text_of(needed, shape.chunks);
        }
        received_before = received;
        previous = action;
      }
    }
  }
  EXPECT_GT(checked, 1000);
}

TEST(Schedule, SendsFollowTheirComputationAtOnce) {
  for (const ScheduleShape& shape : test::supported_shapes(5, 10, 3)) {
    for (int stage = 0; stage < shape.stages; ++stage) {
      const auto actions = stage_actions(shape, stage);
      for (std::size_t i = 0; i < actions.size(); ++i) {
        const bool forward = actions[i].kind == ActionKind::send_forward;
        if (!forward && actions[i].kind != ActionKind::send_backward) continue;
        ASSERT_GT(i, 0U);
        EXPECT_EQ(actions[i - 1], (Action{forward ? ActionKind::forward : ActionKind::backward,
                                          actions[i].chunk, actions[i].micro_batch}));
      }
    }
  }
}

TEST(Schedule, SlotsAreBoundedByTheStagesAndNotByTheMicroBatches) {
  for (const int micro_batches : {8, 64}) {
    const ScheduleShape plain{ScheduleKind::one_f_one_b, 4, micro_batches, 1};
    const ScheduleShape zero_bubble{ScheduleKind::zero_bubble, 4, micro_batches, 1};
    const int expected[] = {4, 4, 3, 2};
    for (int stage = 0; stage < 4; ++stage) {
      EXPECT_EQ(slots(plain, stage, 0), expected[stage]) << stage;
      EXPECT_EQ(slots(zero_bubble, stage, 0), 4) << stage;
      EXPECT_EQ(slots({ScheduleKind::gpipe, 4, micro_batches, 1}, stage, 0), micro_batches);
    }
  }
}

TEST(Schedule, NeverNeedsMoreSlotsThanMicroBatches) {
  for (const ScheduleShape& shape : test::supported_shapes(8, 8, 3)) {
    for (int stage = 0; stage < shape.stages; ++stage) {
      for (int chunk = 0; chunk < shape.chunks; ++chunk) {
        EXPECT_GE(slots(shape, stage, chunk), 1);
        EXPECT_LE(slots(shape, stage, chunk), shape.micro_batches);
      }
    }
  }
}

TEST(Schedule, TheLastStageSendsToTheNextChunkOnTheFirst) {
  const ScheduleShape shape{ScheduleKind::interleaved, 4, 4, 2};

  const Peer wrapped = peer_of(shape, 3, {ActionKind::send_forward, 0, 2});
  EXPECT_EQ(wrapped.stage, 0);
  EXPECT_EQ(wrapped.action, (Action{ActionKind::recv_forward, 1, 2}));
  const Peer back = peer_of(shape, 0, {ActionKind::send_backward, 1, 2});
  EXPECT_EQ(back.stage, 3);
  EXPECT_EQ(back.action, (Action{ActionKind::recv_backward, 0, 2}));
}

TEST(Schedule, ThePeerOfThePeerIsTheTransferItself) {
  int transfers = 0;
  for (const ScheduleShape& shape : test::supported_shapes(4, 4, 3)) {
    for (int stage = 0; stage < shape.stages; ++stage) {
      for (const Action& action : stage_actions(shape, stage)) {
        if (is_compute(action.kind)) continue;
        const Peer peer = peer_of(shape, stage, action);
        const Peer again = peer_of(shape, peer.stage, peer.action);
        EXPECT_EQ(again.stage, stage);
        EXPECT_EQ(again.action, action);
        ++transfers;
      }
    }
  }
  EXPECT_GT(transfers, 100);
}

TEST(Schedule, RefusesThePeerOfAComputationAndOfTheEndsOfThePipeline) {
  const ScheduleShape shape{ScheduleKind::one_f_one_b, 2, 2, 1};

  const auto peer = [&](int stage, ActionKind kind) {
    return [=] { (void)peer_of(shape, stage, {kind, 0, 0}); };
  };
  test::expect_error(ExitCode::internal, peer(0, ActionKind::forward), "F0 is not a transfer");
  test::expect_error(ExitCode::internal, peer(1, ActionKind::send_forward), "SF0", "no peer");
  test::expect_error(ExitCode::internal, peer(0, ActionKind::recv_forward), "RF0", "no peer");
}

TEST(Schedule, NamesOfKindsReadBack) {
  for (const ScheduleKind kind : test::all_schedules)
    EXPECT_EQ(value_named<ScheduleKind>(name_of(kind)), kind);
  for (const char* const unknown : {"", "1F1B", "zero_bubble", "gpipe "})
    EXPECT_FALSE(value_named<ScheduleKind>(unknown)) << unknown;
}

TEST(Schedule, NamesTheReasonAndValidShapesForAnUnsupportedOne) {
  const auto reason = [](ScheduleKind kind, int stages, int micro_batches, int chunks) {
    return unsupported({kind, stages, micro_batches, chunks}).value_or("");
  };

  EXPECT_THAT(reason(ScheduleKind::interleaved, 4, 6, 2),
              AllOf(HasSubstr("not 6"), HasSubstr("use 4 or 8")));
  EXPECT_THAT(reason(ScheduleKind::interleaved, 4, 3, 2), HasSubstr("use 4 micro-batches"));
  EXPECT_THAT(reason(ScheduleKind::interleaved, 4, 4, 1), HasSubstr("2 chunks"));
  EXPECT_THAT(reason(ScheduleKind::interleaved, 1, 4, 2), HasSubstr("2 stages"));
  EXPECT_THAT(reason(ScheduleKind::one_f_one_b, 4, 4, 2),
              AllOf(HasSubstr("1f1b"), HasSubstr("not 2")));
  EXPECT_THAT(reason(ScheduleKind::gpipe, 4, 0, 1), HasSubstr("at least one"));
  EXPECT_EQ(reason(ScheduleKind::interleaved, 4, 8, 2), "");
  EXPECT_EQ(reason(ScheduleKind::zero_bubble, 1, 1, 1), "");
}

TEST(Schedule, IsNotMadeForAnUnsupportedShapeOrAForeignStage) {
  test::expect_error(
      ExitCode::internal,
      [] {
        (void)stage_actions({ScheduleKind::interleaved, 4, 6, 2}, 0);
      },
      "use 4 or 8");
  test::expect_error(
      ExitCode::internal,
      [] {
        (void)stage_actions({ScheduleKind::gpipe, 2, 2, 1}, 2);
      },
      "no stage 2 of 2");
  test::expect_error(
      ExitCode::internal,
      [] {
        (void)slots({ScheduleKind::gpipe, 2, 2, 1}, 0, 1);
      },
      "no chunk 1 of 1");
}

}  // namespace
}  // namespace trireme
