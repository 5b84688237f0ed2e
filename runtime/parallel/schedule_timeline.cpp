// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/schedule_timeline.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

struct Transfer {
  Action action;
  double listed = 0;  // when the stage reached it in its list
};

// In order: one starts when the one before is done.
struct Channel {
  std::vector<Transfer> transfers;
  std::size_t next = 0;
  double free_at = 0;

  [[nodiscard]] bool waits() const { return next < transfers.size(); }
};

struct StageState {
  std::size_t next = 0;  // in its list
  double clock = 0;
  std::array<Channel, 4> channels;                              // by action kind
  std::vector<double> input_at, gradient_at, gradient_sent_at;  // by (chunk, micro-batch)
};

// Times follow from what they wait for alone, so it does not matter in which order the stages are
// visited.
class Replay {
 public:
  Replay(const Schedule& schedule, const Costs& costs)
      : schedule_(schedule), shape_(schedule.shape), costs_(costs) {
    const auto pairs = static_cast<std::size_t>(shape_.chunks * shape_.micro_batches);
    states_.resize(static_cast<std::size_t>(shape_.stages));
    for (StageState& state : states_)
      state.input_at = state.gradient_at = state.gradient_sent_at = std::vector(pairs, never);
    timeline_.stages.resize(states_.size());
  }

  Timeline run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int stage = 0; stage < shape_.stages; ++stage) {
        while (advance(stage))
          moved = true;
        while (transfer(stage, ActionKind::send_forward) ||
               transfer(stage, ActionKind::send_backward))
          moved = true;
      }
    }
    summarise();
    return std::move(timeline_);
  }

 private:
  StageState& state(int stage) { return states_[static_cast<std::size_t>(stage)]; }
  static Channel& channel(StageState& of, ActionKind kind) {
    return of.channels[static_cast<std::size_t>(kind) -
                       static_cast<std::size_t>(ActionKind::send_forward)];
  }
  [[nodiscard]] std::size_t pair(int chunk, int micro_batch) const {
    return static_cast<std::size_t>(chunk * shape_.micro_batches + micro_batch);
  }

  // When what `action` reads has arrived.
  double arrival(int stage, const Action& action) {
    const int here = virtual_stage(shape_, stage, action.chunk);
    const std::size_t at = pair(action.chunk, action.micro_batch);
    if (action.kind == ActionKind::forward && here > 0) return state(stage).input_at[at];
    if (action.kind == ActionKind::backward && here < virtual_stages(shape_) - 1)
      return state(stage).gradient_at[at];
    return 0;
  }

  // The next action of the list; false if it has to wait or there is none.
  bool advance(int stage) {
    const auto& list = schedule_.actions[static_cast<std::size_t>(stage)];
    StageState& here = state(stage);
    if (here.next == list.size()) return false;
    const Action& action = list[here.next];
    if (is_compute(action.kind)) {
      const double arrived = arrival(stage, action);
      if (arrived == never) return false;
      const double start = std::max(here.clock, arrived);
      here.clock = start + seconds_of(shape_, costs_, stage, action);
      timeline_.stages[static_cast<std::size_t>(stage)].push_back({action, start, here.clock});
    } else {
      channel(here, action.kind).transfers.push_back({action, here.clock});
    }
    ++here.next;
    return true;
  }

  // When the slot of an input is free: its last user's gradient has left it. That its last use is
  // over follows from the list, which puts the receive behind it.
  double slot_free_at(int stage, const Action& receive) {
    const auto& of_chunk = schedule_.slots[static_cast<std::size_t>(stage)];
    const int before = receive.micro_batch - of_chunk[static_cast<std::size_t>(receive.chunk)];
    if (receive.kind != ActionKind::recv_forward || before < 0) return 0;
    return state(stage).gradient_sent_at[pair(receive.chunk, before)];
  }

  // The next send of a channel if the other end has posted its receive.
  bool transfer(int stage, ActionKind kind) {
    Channel& sends = channel(state(stage), kind);
    if (!sends.waits()) return false;
    const Transfer& send = sends.transfers[sends.next];
    const Peer peer = peer_of(shape_, stage, send.action);
    StageState& there = state(peer.stage);
    Channel& receives = channel(there, peer.action.kind);
    if (!receives.waits()) return false;
    const Transfer& receive = receives.transfers[receives.next];
    if (receive.action != peer.action) return false;
    const double slot_free = slot_free_at(peer.stage, receive.action);
    if (slot_free == never) return false;
    const double end =
        std::max({send.listed, sends.free_at, receive.listed, receives.free_at, slot_free}) +
        costs_.transfer;
    sends.free_at = receives.free_at = end;
    ++sends.next;
    ++receives.next;
    const std::size_t there_at = pair(peer.action.chunk, peer.action.micro_batch);
    if (kind == ActionKind::send_forward) {
      there.input_at[there_at] = end;
    } else {
      there.gradient_at[there_at] = end;
      state(stage).gradient_sent_at[pair(send.action.chunk, send.action.micro_batch)] = end;
    }
    return true;
  }

  void describe_deadlock(int stage) {
    const auto& list = schedule_.actions[static_cast<std::size_t>(stage)];
    StageState& here = state(stage);
    std::string waits;
    if (here.next < list.size()) waits = text_of(list[here.next], shape_.chunks);
    for (const Channel& channel : here.channels) {
      if (!channel.waits()) continue;
      if (!waits.empty()) waits += ", ";
      waits += text_of(channel.transfers[channel.next].action, shape_.chunks);
    }
    if (waits.empty()) return;
    timeline_.deadlock +=
        fmt::format("{}stage {} at {}", timeline_.deadlock.empty() ? "" : "; ", stage, waits);
  }

  void summarise() {
    for (int stage = 0; stage < shape_.stages; ++stage) {
      double busy = 0;
      int in_flight = 0, peak = 0;
      for (const Span& span : timeline_.stages[static_cast<std::size_t>(stage)]) {
        busy += span.end - span.start;
        if (span.action.kind == ActionKind::forward) peak = std::max(peak, ++in_flight);
        if (span.action.kind == last_use(shape_.kind)) --in_flight;
      }
      timeline_.busy.push_back(busy);
      timeline_.peak_in_flight.push_back(peak);
      timeline_.makespan = std::max(timeline_.makespan, state(stage).clock);
      describe_deadlock(stage);
    }
    const double total = std::accumulate(timeline_.busy.begin(), timeline_.busy.end(), 0.0);
    if (timeline_.makespan > 0) timeline_.bubble = 1 - total / (shape_.stages * timeline_.makespan);
  }

  const Schedule& schedule_;
  const ScheduleShape& shape_;
  const Costs& costs_;
  std::vector<StageState> states_;
  Timeline timeline_;
};

}  // namespace

Costs uniform_costs(const ScheduleShape& shape, double forward, double backward,
                    double backward_weight, double transfer) {
  const auto count = static_cast<std::size_t>(virtual_stages(shape));
  return {std::vector(count, forward), std::vector(count, backward),
          std::vector(count, backward_weight), transfer};
}

double seconds_of(const ScheduleShape& shape, const Costs& costs, int stage, const Action& action) {
  const auto at = static_cast<std::size_t>(virtual_stage(shape, stage, action.chunk));
  switch (action.kind) {
    case ActionKind::forward:
      return costs.forward[at];
    case ActionKind::backward:
      return costs.backward[at] +
             (shape.kind == ScheduleKind::zero_bubble ? 0 : costs.backward_weight[at]);
    case ActionKind::backward_weight:
      return costs.backward_weight[at];
    default:
      return costs.transfer;
  }
}

Timeline simulate(const Schedule& schedule, const Costs& costs) {
  const auto virtuals = static_cast<std::size_t>(virtual_stages(schedule.shape));
  TRIREME_EXPECTS(costs.forward.size() == virtuals && costs.backward.size() == virtuals &&
                      costs.backward_weight.size() == virtuals,
                  "costs of {}, {} and {} virtual stages for {}", costs.forward.size(),
                  costs.backward.size(), costs.backward_weight.size(), virtuals);
  return Replay(schedule, costs).run();
}

Timeline simulate(const ScheduleShape& shape, const Costs& costs) {
  return simulate(make_schedule(shape), costs);
}

}  // namespace trireme
