// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/schedule_check.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>

#include "tests/parallel/schedules.h"

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::Optional;

std::size_t at(const Schedule& schedule, int stage, const Action& action) {
  const auto& list = schedule.actions[static_cast<std::size_t>(stage)];
  const auto found = std::ranges::find(list, action);
  EXPECT_NE(found, list.end()) << text_of(action);
  return static_cast<std::size_t>(found - list.begin());
}

// Hosts that follow their lists on streams with room for few transfers. A host waits if there is no
// module, and a computation waits for its inputs.
class NarrowHosts {
 public:
  explicit NarrowHosts(const Schedule& schedule)
      : schedule_(schedule), hosts_(schedule.actions.size()) {}

  bool come_to_an_end() {
    for (bool moves = true; moves;) {
      moves = false;
      for (int stage = 0; stage < schedule_.shape.stages; ++stage) {
        for (; host(stage).next < list(stage).size() && step(stage); ++host(stage).next)
          moves = true;
      }
    }
    return std::ranges::all_of(hosts_, [&](const Host& each) {
      return each.next == list(static_cast<int>(&each - hosts_.data())).size();
    });
  }

 private:
  struct Host {
    std::size_t next = 0;
    std::array<int, 7> posted{}, over{};  // of a channel, by kind of transfer
    std::array<int, 7> read{};            // by the computations that receives are for
  };
  Host& host(int stage) { return hosts_[static_cast<std::size_t>(stage)]; }
  const std::vector<Action>& list(int stage) const {
    return schedule_.actions[static_cast<std::size_t>(stage)];
  }

  bool step(int stage) {
    const Action& action = list(stage)[host(stage).next];
    return is_compute(action.kind) ? compute(stage, action) : post(stage, action);
  }
  bool compute(int stage, const Action& action) {
    const int at = virtual_stage(schedule_.shape, stage, action.chunk);
    const bool forward = action.kind == ActionKind::forward;
    if (action.kind == ActionKind::backward_weight ||
        at == (forward ? 0 : virtual_stages(schedule_.shape) - 1))
      return true;
    const auto kind =
        static_cast<std::size_t>(forward ? ActionKind::recv_forward : ActionKind::recv_backward);
    if (host(stage).read[kind] == host(stage).over[kind]) return false;
    ++host(stage).read[kind];
    return true;
  }
  // A message passes as soon as both ends have posted it.
  bool post(int stage, const Action& action) {
    const Peer peer = peer_of(schedule_.shape, stage, action);
    const auto here = static_cast<std::size_t>(action.kind);
    const auto there = static_cast<std::size_t>(peer.action.kind);
    Host &own = host(stage), &other = host(peer.stage);
    if (own.posted[here] - own.over[here] == receives_ahead) return false;
    ++own.posted[here];
    own.over[here] = other.over[there] = std::min(own.posted[here], other.posted[there]);
    return true;
  }

  const Schedule& schedule_;
  std::vector<Host> hosts_;
};

void expect_to_end(const ScheduleShape& shape) {
  if (unsupported(shape)) return;
  const Schedule schedule = make_schedule(shape);
  ASSERT_EQ(check_schedule(schedule), std::nullopt) << testing::PrintToString(shape);
  EXPECT_TRUE(NarrowHosts(schedule).come_to_an_end()) << testing::PrintToString(shape);
}

TEST(ScheduleCheck, NoScheduleDeadlocksWithRoomForItsReceives) {
  for (const ScheduleKind kind : test::all_schedules) {
    for (const int stages : {2, 3, 4, 7, 40}) {
      for (const int micro_batches : {64, 65, 66, 128, 132, 300, 1000, 1200}) {
        for (const int chunks : {1, 2, 4})
          expect_to_end({kind, stages, micro_batches, chunks});
      }
    }
  }
}

TEST(ScheduleCheck, ADeadlockIsFoundIfAListPostsTooFarAhead) {
  Schedule schedule = make_schedule({ScheduleKind::gpipe, 2, 100, 1});
  auto& list = schedule.actions[0];
  std::erase_if(list, [](const Action& each) { return each.kind == ActionKind::recv_backward; });
  for (int m = 0; m < 100; ++m)
    list.insert(list.begin() + 3 * m + 2, {ActionKind::recv_backward, 0, m});

  EXPECT_FALSE(NarrowHosts(schedule).come_to_an_end());
  EXPECT_THAT(check_schedule(schedule),
              Optional(HasSubstr("RB64 is receive 65 that waits on its channel")));
}

TEST(ScheduleCheck, HoldsForEverySupportedShape) {
  const auto shapes = test::supported_shapes(16, 64, 4);
  ASSERT_GT(shapes.size(), 3000U);
  for (const ScheduleShape& shape : shapes)
    ASSERT_EQ(check_schedule(shape), std::nullopt) << testing::PrintToString(shape);
}

// Every test below breaks one of these, which are valid at first.
class BrokenSchedule : public testing::TestWithParam<ScheduleShape> {
 protected:
  Schedule schedule_ = make_schedule(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Kinds, BrokenSchedule,
                         testing::Values(ScheduleShape{ScheduleKind::gpipe, 3, 4, 1},
                                         ScheduleShape{ScheduleKind::one_f_one_b, 3, 6, 1},
                                         ScheduleShape{ScheduleKind::interleaved, 3, 6, 2},
                                         ScheduleShape{ScheduleKind::zero_bubble, 3, 6, 1}));

TEST_P(BrokenSchedule, IsFoundWhenAnyActionIsDropped) {
  ASSERT_EQ(check_schedule(schedule_), std::nullopt);
  for (std::size_t stage = 0; stage < schedule_.actions.size(); ++stage) {
    for (std::size_t i = 0; i < schedule_.actions[stage].size(); ++i) {
      Schedule broken = schedule_;
      auto& list = broken.actions[stage];
      const std::string dropped = text_of(list[i], broken.shape.chunks);
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
      EXPECT_NE(check_schedule(broken), std::nullopt) << "without " << dropped;
    }
  }
}

TEST_P(BrokenSchedule, IsFoundWhenAnyActionIsListedTwice) {
  for (std::size_t stage = 0; stage < schedule_.actions.size(); ++stage) {
    for (const Action& action : schedule_.actions[stage]) {
      Schedule broken = schedule_;
      broken.actions[stage].push_back(action);
      EXPECT_THAT(check_schedule(broken), Optional(HasSubstr("listed twice")));
    }
  }
}

TEST_P(BrokenSchedule, IsFoundWhenAnyTwoTransfersOfAChannelAreSwapped) {
  int swaps = 0;
  for (std::size_t stage = 0; stage < schedule_.actions.size(); ++stage) {
    const auto& list = schedule_.actions[stage];
    for (std::size_t i = 0; i < list.size(); ++i) {
      for (std::size_t j = i + 1; j < list.size(); ++j) {
        if (is_compute(list[i].kind) || list[i].kind != list[j].kind) continue;
        Schedule broken = schedule_;
        std::swap(broken.actions[stage][i], broken.actions[stage][j]);
        EXPECT_NE(check_schedule(broken), std::nullopt)
            << text_of(list[i]) << " and " << text_of(list[j]) << " on stage " << stage;
        ++swaps;
      }
    }
  }
  EXPECT_GT(swaps, 20);
}

TEST_P(BrokenSchedule, IsFoundWhenAnySlotIsTakenAway) {
  for (std::size_t stage = 0; stage < schedule_.slots.size(); ++stage) {
    for (std::size_t chunk = 0; chunk < schedule_.slots[stage].size(); ++chunk) {
      Schedule broken = schedule_;
      --broken.slots[stage][chunk];
      EXPECT_THAT(check_schedule(broken), Optional(HasSubstr("slot"))) << stage << " " << chunk;
    }
  }
}

TEST_P(BrokenSchedule, IsFoundWhenAComputationPrecedesItsInputs) {
  int moves = 0;
  for (std::size_t stage = 0; stage < schedule_.actions.size(); ++stage) {
    for (std::size_t i = 1; i < schedule_.actions[stage].size(); ++i) {
      Schedule broken = schedule_;
      auto& list = broken.actions[stage];
      if (list[i].kind != ActionKind::backward) continue;
      const Action backward = list[i];
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
      list.insert(list.begin(), backward);
      EXPECT_THAT(check_schedule(broken), Optional(HasSubstr("does not come after F")));
      ++moves;
    }
  }
  EXPECT_GT(moves, 10);
}

TEST(ScheduleCheck, FindsTwoSendsInAnotherOrderThanTheirReceives) {
  Schedule schedule = make_schedule({ScheduleKind::gpipe, 2, 3, 1});
  auto& list = schedule.actions[0];
  const std::size_t first = at(schedule, 0, {ActionKind::send_forward, 0, 1});
  const std::size_t second = at(schedule, 0, {ActionKind::send_forward, 0, 2});
  // The earlier one moves after the later one, so both still follow their forwards.
  const Action moved = list[first];
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(second) + 1, moved);
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(first));

  EXPECT_THAT(check_schedule(schedule),
              Optional(HasSubstr("stage 0 sends SF2 where stage 1 receives RF1")));
}

TEST(ScheduleCheck, FindsStagesThatWaitForEachOther) {
  Schedule schedule = make_schedule({ScheduleKind::gpipe, 2, 2, 1});
  // Stage 0 wants the gradient of micro-batch 0 before it sends micro-batch 1, which stage 1 runs
  // before any backward.
  schedule.actions[0] = {{ActionKind::forward, 0, 0},       {ActionKind::send_forward, 0, 0},
                         {ActionKind::recv_backward, 0, 0}, {ActionKind::backward, 0, 0},
                         {ActionKind::forward, 0, 1},       {ActionKind::send_forward, 0, 1},
                         {ActionKind::recv_backward, 0, 1}, {ActionKind::backward, 0, 1}};

  EXPECT_THAT(check_schedule(schedule), Optional(HasSubstr("deadlock: stage 0 at B0")));
}

TEST(ScheduleCheck, FindsMoreInFlightThanTheKindPromises) {
  Schedule schedule = make_schedule({ScheduleKind::gpipe, 2, 4, 1});
  schedule.shape.kind = ScheduleKind::one_f_one_b;

  EXPECT_THAT(check_schedule(schedule), Optional(HasSubstr("over the bound of 2")));
}

TEST(ScheduleCheck, FindsMicroBatchesOutOfOrder) {
  Schedule schedule = make_schedule({ScheduleKind::gpipe, 1, 3, 1});
  std::swap(schedule.actions[0][3], schedule.actions[0][4]);

  EXPECT_THAT(check_schedule(schedule), Optional(HasSubstr("B1 comes before micro-batch 0")));
}

TEST(ScheduleCheck, FindsActionsOutsideTheShape) {
  Schedule schedule = make_schedule({ScheduleKind::one_f_one_b, 2, 2, 1});
  schedule.actions[1].push_back({ActionKind::forward, 0, 2});
  EXPECT_THAT(check_schedule(schedule), Optional(HasSubstr("F2 is outside")));

  schedule.actions[1].back() = {ActionKind::backward_weight, 0, 1};
  EXPECT_THAT(check_schedule(schedule), Optional(HasSubstr("W1 does not belong")));

  schedule.actions.pop_back();
  EXPECT_THAT(check_schedule(schedule), Optional(HasSubstr("1 lists for 2 stages")));
}

}  // namespace
}  // namespace trireme
