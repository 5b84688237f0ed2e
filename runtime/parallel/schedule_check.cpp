// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/schedule_check.h"

#include <algorithm>
#include <array>

#include "runtime/base/error.h"
#include "runtime/parallel/schedule_timeline.h"

namespace trireme {
namespace {

using Violation = std::optional<std::string>;

constexpr std::size_t action_kinds = 7;

// Checks the list of one stage.
class StageCheck {
 public:
  StageCheck(const Schedule& schedule, int stage)
      : shape_(schedule.shape),
        stage_(stage),
        actions_(schedule.actions[static_cast<std::size_t>(stage)]),
        slots_(schedule.slots[static_cast<std::size_t>(stage)]),
        passed_(static_cast<std::size_t>(shape_.chunks)) {
    for (auto& count : listed_)
      count.resize(static_cast<std::size_t>(shape_.chunks * shape_.micro_batches), 0);
    for (const int count : slots_)
      holders_.emplace_back(static_cast<std::size_t>(std::max(count, 0)), free);
  }

  Violation run() {
    for (const Action& action : actions_) {
      if (action.chunk < 0 || action.chunk >= shape_.chunks || action.micro_batch < 0 ||
          action.micro_batch >= shape_.micro_batches)
        return about(action, "is outside the shape");
      if (!belongs(action.kind, action.chunk)) return about(action, "does not belong here");
      if (listed(action.kind, action)) return about(action, "is listed twice");
      if (auto violation = follow(action)) return violation;
    }
    return find_missing();
  }

 private:
  static constexpr int free = -1;

  bool is_first(int chunk) const { return virtual_stage(shape_, stage_, chunk) == 0; }
  bool is_last(int chunk) const {
    return virtual_stage(shape_, stage_, chunk) == virtual_stages(shape_) - 1;
  }
  bool belongs(ActionKind kind, int chunk) const {
    switch (kind) {
      case ActionKind::backward_weight:
        return shape_.kind == ScheduleKind::zero_bubble;
      case ActionKind::send_forward:
      case ActionKind::recv_backward:
        return !is_last(chunk);
      case ActionKind::recv_forward:
      case ActionKind::send_backward:
        return !is_first(chunk);
      default:
        return true;
    }
  }
  char& listed(ActionKind kind, const Action& of) {
    return listed_[static_cast<std::size_t>(kind)]
                  [static_cast<std::size_t>(of.chunk * shape_.micro_batches + of.micro_batch)];
  }
  Violation about(const Action& action, std::string_view what) const {
    return fmt::format("stage {}: {} {}", stage_, text_of(action, shape_.chunks), what);
  }

  // Checks the preconditions of `action`, then applies it.
  Violation follow(const Action& action) {
    if (auto violation = check_order(action)) return violation;
    if (auto violation = check_ahead(action)) return violation;
    const int chunk = action.chunk;
    const ActionKind takes = is_first(chunk) ? ActionKind::forward : ActionKind::recv_forward;
    if (action.kind == takes) {
      auto& slots = holders_[static_cast<std::size_t>(chunk)];
      if (slots.empty()) return about(action, "has no slot");
      int& holder = slots[static_cast<std::size_t>(action.micro_batch) % slots.size()];
      if (holder != free)
        return about(action, fmt::format("needs the slot that micro-batch {} holds", holder));
      holder = action.micro_batch;
    }
    listed(action.kind, action) = 1;
    const bool used_up = listed(last_use(shape_.kind), action) != 0;
    if (used_up && (is_first(chunk) || listed(ActionKind::send_backward, action) != 0)) {
      auto& slots = holders_[static_cast<std::size_t>(chunk)];
      slots[static_cast<std::size_t>(action.micro_batch) % slots.size()] = free;
    }
    if (action.kind == last_use(shape_.kind)) --in_flight_;
    if (action.kind == ActionKind::forward && ++in_flight_ > in_flight_bound(shape_, stage_))
      return about(action, fmt::format("is number {} in flight, over the bound of {}", in_flight_,
                                       in_flight_bound(shape_, stage_)));
    return {};
  }

  Violation check_order(const Action& action) {
    switch (action.kind) {
      case ActionKind::forward:
        if (auto violation = after(action, ActionKind::recv_forward)) return violation;
        break;
      case ActionKind::backward:
        if (auto violation = after(action, ActionKind::forward)) return violation;
        if (auto violation = after(action, ActionKind::recv_backward)) return violation;
        break;
      case ActionKind::backward_weight:
      case ActionKind::send_backward:
        if (auto violation = after(action, ActionKind::backward)) return violation;
        break;
      case ActionKind::send_forward:
      case ActionKind::recv_backward:
        if (auto violation = after(action, ActionKind::forward)) return violation;
        break;
      case ActionKind::recv_forward:
        break;
    }
    if (!is_compute(action.kind)) return {};
    int& next =
        passed_[static_cast<std::size_t>(action.chunk)][static_cast<std::size_t>(action.kind)];
    if (action.micro_batch != next)
      return about(action, fmt::format("comes before micro-batch {} of its chunk", next));
    ++next;
    return {};
  }

  // Counts receives that no computation has read yet.
  Violation check_ahead(const Action& action) {
    if (action.kind == ActionKind::forward && !is_first(action.chunk)) --inputs_ahead_;
    if (action.kind == ActionKind::backward && !is_last(action.chunk)) --gradients_ahead_;
    int ahead = 0;
    if (action.kind == ActionKind::recv_forward) ahead = ++inputs_ahead_;
    if (action.kind == ActionKind::recv_backward) ahead = ++gradients_ahead_;
    if (ahead <= receives_ahead) return {};
    return about(action,
                 fmt::format("is receive {} that waits on its channel, over the limit of {}", ahead,
                             receives_ahead));
  }

  Violation after(const Action& action, ActionKind kind) {
    if (!belongs(kind, action.chunk) || listed(kind, action) != 0) return {};
    const Action needed{kind, action.chunk, action.micro_batch};
    return about(action, fmt::format("does not come after {}", text_of(needed, shape_.chunks)));
  }

  Violation find_missing() {
    for (std::size_t i = 0; i < action_kinds; ++i) {
      const auto kind = static_cast<ActionKind>(i);
      for (int chunk = 0; chunk < shape_.chunks; ++chunk) {
        for (int m = 0; m < shape_.micro_batches && belongs(kind, chunk); ++m) {
          const Action action{kind, chunk, m};
          if (listed(kind, action) == 0) return about(action, "is missing");
        }
      }
    }
    return {};
  }

  const ScheduleShape& shape_;
  int stage_;
  const std::vector<Action>& actions_;
  const std::vector<int>& slots_;
  std::array<std::vector<char>, action_kinds> listed_;  // [kind][chunk, micro-batch]
  std::vector<std::array<int, 3>> passed_;  // [chunk][compute kind]: the next micro-batch
  std::vector<std::vector<int>> holders_;   // [chunk][slot]: micro-batch or free
  int in_flight_ = 0, inputs_ahead_ = 0, gradients_ahead_ = 0;
};

std::vector<Action> of_kind(const std::vector<Action>& actions, ActionKind kind) {
  std::vector<Action> found;
  std::ranges::copy_if(actions, std::back_inserter(found),
                       [kind](const Action& action) { return action.kind == kind; });
  return found;
}

// All stages' lists are complete, so the two ends of a channel can only differ in order.
Violation check_channel(const Schedule& schedule, int stage, ActionKind kind) {
  const ScheduleShape& shape = schedule.shape;
  const auto sends = of_kind(schedule.actions[static_cast<std::size_t>(stage)], kind);
  if (sends.empty()) return {};
  const Peer first = peer_of(shape, stage, sends.front());
  const auto receives =
      of_kind(schedule.actions[static_cast<std::size_t>(first.stage)], first.action.kind);
  for (std::size_t i = 0; i < sends.size(); ++i) {
    const Peer peer = peer_of(shape, stage, sends[i]);
    if (i < receives.size() && receives[i] == peer.action) continue;
    return fmt::format("stage {} sends {} where stage {} receives {}", stage,
                       text_of(sends[i], shape.chunks), first.stage,
                       i < receives.size() ? text_of(receives[i], shape.chunks) : "nothing");
  }
  return {};
}

}  // namespace

int in_flight_bound(const ScheduleShape& shape, int stage) {
  switch (shape.kind) {
    case ScheduleKind::gpipe:
      break;
    case ScheduleKind::one_f_one_b:
      return std::min(shape.micro_batches, shape.stages - stage);
    case ScheduleKind::zero_bubble:
      return std::min(shape.micro_batches, shape.stages);
    case ScheduleKind::interleaved:
      return std::min(shape.micro_batches * shape.chunks,
                      2 * (shape.stages - stage - 1) + (shape.chunks - 1) * shape.stages + 1);
  }
  return shape.micro_batches;
}

std::optional<std::string> check_schedule(const Schedule& schedule) {
  const ScheduleShape& shape = schedule.shape;
  const auto stages = static_cast<std::size_t>(shape.stages);
  if (schedule.actions.size() != stages || schedule.slots.size() != stages)
    return fmt::format("{} lists for {} stages", schedule.actions.size(), shape.stages);
  for (int stage = 0; stage < shape.stages; ++stage) {
    if (schedule.slots[static_cast<std::size_t>(stage)].size() !=
        static_cast<std::size_t>(shape.chunks))
      return fmt::format("stage {}: slots for another number of chunks", stage);
    if (auto violation = StageCheck(schedule, stage).run()) return violation;
  }
  for (int stage = 0; stage < shape.stages; ++stage) {
    for (const ActionKind kind : {ActionKind::send_forward, ActionKind::send_backward}) {
      if (auto violation = check_channel(schedule, stage, kind)) return violation;
    }
  }
  const Timeline timeline = simulate(schedule, uniform_costs(shape, 1, 1, 1, 1));
  if (!timeline.deadlock.empty()) return "deadlock: " + timeline.deadlock;
  return {};
}

std::optional<std::string> check_schedule(const ScheduleShape& shape) {
  return check_schedule(make_schedule(shape));
}

}  // namespace trireme
