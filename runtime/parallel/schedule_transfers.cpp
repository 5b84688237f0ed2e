// SPDX-License-Identifier: Apache-2.0
// Adds transfers to the order of computations, and counts the slots needed.
#include <algorithm>

#include "runtime/base/error.h"
#include "runtime/parallel/schedule_order.h"

namespace trireme {
namespace {

void expect_supported(const ScheduleShape& shape, int stage) {
  const auto reason = unsupported(shape);
  TRIREME_EXPECTS(!reason, "{}", *reason);
  TRIREME_EXPECTS(stage >= 0 && stage < shape.stages, "no stage {} of {}", stage, shape.stages);
}

// An input is received one computation ahead of its forward, so it cannot use a slot that this
// computation frees.
std::vector<int> count_slots(const ScheduleShape& shape, int stage,
                             const std::vector<Action>& order) {
  std::vector<int> peak(static_cast<std::size_t>(shape.chunks), 0);
  std::vector<int> alive = peak;
  int freed_last = -1;  // the chunk whose slot the previous computation freed
  for (const Action& action : order) {
    const auto chunk = static_cast<std::size_t>(action.chunk);
    if (action.kind == ActionKind::forward) {
      const bool receives = virtual_stage(shape, stage, action.chunk) > 0;
      const int held_ahead = receives && freed_last == action.chunk ? 1 : 0;
      peak[chunk] = std::max(peak[chunk], ++alive[chunk] + held_ahead);
    }
    freed_last = action.kind == last_use(shape.kind) ? action.chunk : -1;
    if (freed_last >= 0) --alive[chunk];
  }
  return peak;
}

// Lists a stage's computations with its transfers.
class Lister {
 public:
  Lister(const ScheduleShape& shape, int stage, const std::vector<Action>& order)
      : shape_(shape), stage_(stage), order_(order), slots_(count_slots(shape, stage, order)) {
    // Both ends of a channel compute in the same order, so the order of computations is also the
    // channel's; on the first and last stage without the chunk that has no peer.
    for (const Action& action : order) {
      if (action.kind == ActionKind::forward && !is_first(action.chunk)) inputs_.push_back(action);
      if (action.kind == ActionKind::backward && !is_last(action.chunk))
        gradients_.push_back(action);
    }
    computed_.resize(static_cast<std::size_t>(shape.chunks));
  }

  std::vector<Action> list() {
    for (const Action& action : order_) {
      add_receives();
      listed_.push_back(action);
      Done& done = computed_[static_cast<std::size_t>(action.chunk)];
      if (action.kind == ActionKind::forward) {
        ++done.forward;
        if (!is_first(action.chunk)) ++read_inputs_;
      }
      if (action.kind == ActionKind::backward && !is_last(action.chunk)) ++read_gradients_;
      if (action.kind == last_use(shape_.kind)) ++done.freed;
      add_send(action);
    }
    return std::move(listed_);
  }

 private:
  // Completed micro-batches of a chunk; they pass in order, so a count suffices.
  struct Done {
    int forward = 0;
    int freed = 0;
  };

  bool is_first(int chunk) const { return virtual_stage(shape_, stage_, chunk) == 0; }
  bool is_last(int chunk) const {
    return virtual_stage(shape_, stage_, chunk) == virtual_stages(shape_) - 1;
  }

  // Adds receives of both channels as early as allowed.
  void add_receives() {
    const std::size_t last_input = std::min(inputs_.size(), read_inputs_ + receives_ahead);
    for (; next_input_ < last_input; ++next_input_) {
      const Action& forward = inputs_[next_input_];
      const auto chunk = static_cast<std::size_t>(forward.chunk);
      if (forward.micro_batch - slots_[chunk] >= computed_[chunk].freed) break;
      listed_.push_back({ActionKind::recv_forward, forward.chunk, forward.micro_batch});
    }
    const std::size_t last_gradient = std::min(gradients_.size(), read_gradients_ + receives_ahead);
    for (; next_gradient_ < last_gradient; ++next_gradient_) {
      const Action& backward = gradients_[next_gradient_];
      if (backward.micro_batch >= computed_[static_cast<std::size_t>(backward.chunk)].forward)
        break;
      listed_.push_back({ActionKind::recv_backward, backward.chunk, backward.micro_batch});
    }
  }

  void add_send(const Action& done) {
    if (done.kind == ActionKind::forward && !is_last(done.chunk))
      listed_.push_back({ActionKind::send_forward, done.chunk, done.micro_batch});
    if (done.kind == ActionKind::backward && !is_first(done.chunk))
      listed_.push_back({ActionKind::send_backward, done.chunk, done.micro_batch});
  }

  const ScheduleShape& shape_;
  int stage_;
  const std::vector<Action>& order_;
  std::vector<int> slots_;
  std::vector<Action> inputs_, gradients_;  // computations that wait for a receive, in order
  std::size_t next_input_ = 0, next_gradient_ = 0;
  std::size_t read_inputs_ = 0, read_gradients_ = 0;  // of these, those listed so far
  std::vector<Done> computed_;
  std::vector<Action> listed_;
};

}  // namespace

std::vector<Action> stage_actions(const ScheduleShape& shape, int stage) {
  expect_supported(shape, stage);
  const std::vector<Action> order = compute_order(shape, stage);
  return Lister(shape, stage, order).list();
}

int slots(const ScheduleShape& shape, int stage, int chunk) {
  expect_supported(shape, stage);
  TRIREME_EXPECTS(chunk >= 0 && chunk < shape.chunks, "no chunk {} of {}", chunk, shape.chunks);
  return count_slots(shape, stage, compute_order(shape, stage))[static_cast<std::size_t>(chunk)];
}

}  // namespace trireme
