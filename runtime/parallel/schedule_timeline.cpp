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
  double listed = 0;  // time at which the stage reached it in its list
};

// In order: each transfer starts when the previous one is done.
struct Channel {
  std::vector<Transfer> transfers;
  std::size_t next = 0;
  double free_at = 0;

  [[nodiscard]] bool waits() const { return next < transfers.size(); }
};

struct StageState {
  std::size_t next = 0;                                         // in its list
  std::array<Channel, 4> channels;                              // by action kind
  std::vector<double> input_at, gradient_at, gradient_sent_at;  // by (chunk, micro-batch)
};

// With a core for each stage, its times follow from its inputs' arrivals alone: each stage goes as
// far as they are known. Stages that share cores are event-driven: a computation ends, or an
// awaited input arrives; the last span of a computing stage then has the end predicted at the
// present rate.
class Replay {
 public:
  Replay(const Schedule& schedule, const Costs& costs, const PipelineResources& resources)
      : schedule_(schedule), shape_(schedule.shape), costs_(costs), resources_(resources) {
    const auto pairs = static_cast<std::size_t>(shape_.chunks * shape_.micro_batches);
    states_.resize(static_cast<std::size_t>(shape_.stages));
    wakes_at_.resize(states_.size());
    for (StageState& state : states_)
      state.input_at = state.gradient_at = state.gradient_sent_at = std::vector(pairs, never);
    timeline_.stages.resize(states_.size());
    if (resources.scheduling_delay > 0)
      delay_ = std::min(resources.scheduling_delay, mean_seconds());
  }

  Timeline run() {
    if (resources_.cores >= shape_.stages) {
      run_apart();
    } else {
      run_together();
    }
    summarise();
    return std::move(timeline_);
  }

 private:
  void run_apart() {
    awake_.resize(states_.size());
    std::iota(awake_.rbegin(), awake_.rend(), 0);
    while (!awake_.empty()) {
      const int stage = awake_.back();
      awake_.pop_back();
      for (now_ = wakes_at(stage); now_ < never; now_ = wakes_at(stage))
        follow_list(stage);
    }
  }

  void run_together() {
    while (now_ < never) {
      for (int stage = 0; stage < shape_.stages; ++stage) {
        if (wakes_at(stage) <= now_) follow_list(stage);
      }
      share_cores();
      now_ = *std::ranges::min_element(wakes_at_);
    }
  }

  // When its computation ends or its input arrives; never if that is unknown yet.
  double& wakes_at(int stage) { return wakes_at_[static_cast<std::size_t>(stage)]; }
  StageState& state(int stage) { return states_[static_cast<std::size_t>(stage)]; }
  std::vector<Span>& spans(int stage) { return timeline_.stages[static_cast<std::size_t>(stage)]; }
  const std::vector<Action>& list(int stage) const {
    return schedule_.actions[static_cast<std::size_t>(stage)];
  }
  static Channel& channel(StageState& of, ActionKind kind) {
    return of.channels[static_cast<std::size_t>(kind) -
                       static_cast<std::size_t>(ActionKind::send_forward)];
  }
  [[nodiscard]] std::size_t pair(const Action& action) const {
    return static_cast<std::size_t>(action.chunk * shape_.micro_batches + action.micro_batch);
  }

  // Of a computation.
  double mean_seconds() const {
    double sum = 0, count = 0;
    for (int stage = 0; stage < shape_.stages; ++stage) {
      for (const Action& action : list(stage)) {
        if (!is_compute(action.kind)) continue;
        sum += seconds_of(shape_, costs_, stage, action);
        ++count;
      }
    }
    return sum / count;
  }

  // End of its last computation.
  double computes_until(int stage) { return spans(stage).empty() ? 0 : spans(stage).back().end; }

  // Arrival time of the input of `action`.
  double arrival(int stage, const Action& action) {
    const int here = virtual_stage(shape_, stage, action.chunk);
    if (action.kind == ActionKind::forward && here > 0) return state(stage).input_at[pair(action)];
    if (action.kind == ActionKind::backward && here < virtual_stages(shape_) - 1)
      return state(stage).gradient_at[pair(action)];
    return 0;
  }

  // Advances to the next computation of the list, which starts or waits.
  void follow_list(int stage) {
    StageState& here = state(stage);
    const std::vector<Action>& actions = list(stage);
    while (here.next < actions.size() && !is_compute(actions[here.next].kind))
      post(stage, actions[here.next++]);
    wakes_at(stage) = here.next < actions.size() ? arrival(stage, actions[here.next]) : never;
    if (wakes_at(stage) > now_) return;
    const Action& action = actions[here.next++];
    wakes_at(stage) = now_ + seconds_of(shape_, costs_, stage, action) / rate_;
    spans(stage).push_back({action, now_, wakes_at(stage)});
  }

  // Equal shares of the cores for all computing stages (processor sharing), at most one core each.
  void share_cores() {
    double active = 0;
    for (int stage = 0; stage < shape_.stages; ++stage)
      active += computes_until(stage) > now_ ? 1 : 0;
    const double rate = std::min(1.0, resources_.cores / std::max(active, 1.0));
    for (int stage = 0; stage < shape_.stages && rate != rate_; ++stage) {
      if (computes_until(stage) <= now_) continue;
      double& end = spans(stage).back().end;
      end = now_ + (end - now_) * rate_ / rate;
      wakes_at(stage) = end;
    }
    rate_ = rate;
  }

  void post(int stage, const Action& transfer) {
    const bool sends =
        transfer.kind == ActionKind::send_forward || transfer.kind == ActionKind::send_backward;
    if (resources_.links == LinkModel::unlimited) {
      if (sends) deliver(stage, transfer, now_ + costs_.transfer);
      return;
    }
    channel(state(stage), transfer.kind).transfers.push_back({transfer, now_});
    const Peer peer = sends ? Peer{stage, transfer} : peer_of(shape_, stage, transfer);
    while (move(peer.stage, peer.action.kind)) {
    }
  }

  void deliver(int stage, const Action& send, double at) {
    const Peer peer = peer_of(shape_, stage, send);
    StageState& there = state(peer.stage);
    const bool forward = send.kind == ActionKind::send_forward;
    (forward ? there.input_at : there.gradient_at)[pair(peer.action)] = at + delay_;
    if (wakes_at(peer.stage) < never || there.next == list(peer.stage).size()) return;
    wakes_at(peer.stage) =
        std::max(computes_until(peer.stage), arrival(peer.stage, list(peer.stage)[there.next]));
    if (wakes_at(peer.stage) < never) awake_.push_back(peer.stage);
  }

  // When an input's slot is free: its last user's gradient was sent. The end of its last use
  // follows from the list, where the receive comes after it.
  double slot_free_at(int stage, const Action& receive) {
    const auto& of_chunk = schedule_.slots[static_cast<std::size_t>(stage)];
    const int before = receive.micro_batch - of_chunk[static_cast<std::size_t>(receive.chunk)];
    if (receive.kind != ActionKind::recv_forward || before < 0) return 0;
    return state(stage).gradient_sent_at[pair({receive.kind, receive.chunk, before})];
  }

  // Performs the next send of a channel if its receive is posted. Its times depend only on what it
  // waits for, so they may be in the future.
  bool move(int stage, ActionKind kind) {
    Channel& sends = channel(state(stage), kind);
    if (!sends.waits()) return false;
    const Transfer& send = sends.transfers[sends.next];
    const Peer peer = peer_of(shape_, stage, send.action);
    Channel& receives = channel(state(peer.stage), peer.action.kind);
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
    deliver(stage, send.action, end);
    if (kind == ActionKind::send_backward) {
      state(stage).gradient_sent_at[pair(send.action)] = end;
      // An input may wait for the slot.
      while (move((stage + shape_.stages - 1) % shape_.stages, ActionKind::send_forward)) {
      }
    }
    return true;
  }

  void describe_deadlock(int stage) {
    StageState& here = state(stage);
    std::string waits;
    if (here.next < list(stage).size()) waits = text_of(list(stage)[here.next], shape_.chunks);
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
      for (const Span& span : spans(stage)) {
        busy += span.end - span.start;
        if (span.action.kind == ActionKind::forward) peak = std::max(peak, ++in_flight);
        if (span.action.kind == last_use(shape_.kind)) --in_flight;
      }
      timeline_.busy.push_back(busy);
      timeline_.peak_in_flight.push_back(peak);
      timeline_.makespan = std::max(timeline_.makespan, computes_until(stage));
      describe_deadlock(stage);
    }
    const double total = std::accumulate(timeline_.busy.begin(), timeline_.busy.end(), 0.0);
    if (timeline_.makespan > 0) timeline_.bubble = 1 - total / (shape_.stages * timeline_.makespan);
  }

  const Schedule& schedule_;
  const ScheduleShape& shape_;
  const Costs& costs_;
  const PipelineResources& resources_;
  std::vector<StageState> states_;
  std::vector<double> wakes_at_;  // apart, as every event looks through all
  std::vector<int> awake_;        // of stages apart: those that can go on
  double now_ = 0, rate_ = 1, delay_ = 0;
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

Timeline simulate(const Schedule& schedule, const Costs& costs,
                  const PipelineResources& resources) {
  const auto virtuals = static_cast<std::size_t>(virtual_stages(schedule.shape));
  TRIREME_EXPECTS(costs.forward.size() == virtuals && costs.backward.size() == virtuals &&
                      costs.backward_weight.size() == virtuals,
                  "costs of {}, {} and {} virtual stages for {}", costs.forward.size(),
                  costs.backward.size(), costs.backward_weight.size(), virtuals);
  return Replay(schedule, costs, resources).run();
}

Timeline simulate(const ScheduleShape& shape, const Costs& costs,
                  const PipelineResources& resources) {
  return simulate(make_schedule(shape), costs, resources);
}

}  // namespace trireme
