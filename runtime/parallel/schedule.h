// SPDX-License-Identifier: Apache-2.0
// Pipeline schedules as data: what each stage does, in which order. Pure functions of the shape,
// without devices; schedule_check.h proves a schedule, schedule_timeline.h times it.
//
// Chunk c of stage s is virtual stage c * stages + s; micro-batches pass the virtual stages in
// order, so the forward of chunk c on the last stage goes to chunk c + 1 on stage 0.
//
// Channels. A stage has four, each a stream with an order of its own: send_forward (to the next
// stage), recv_forward (from the previous), send_backward (to the previous), recv_backward (from
// the next). With two stages the next and the previous stage are one rank; the channels stay apart.
// A send completes once its receive is posted (no buffering is assumed) and holds up nothing but
// its own channel. A receive enqueues; the forward or backward of the same (chunk, micro-batch)
// waits for it.
//
// A stage lists no more than `receives_ahead` receives of a channel ahead of the computations that
// read them. Each takes room in the queue of its stream until its message comes, and a stage that
// waits for room cannot compute what the message waits for. No schedule comes to a standstill where
// streams have room for `receives_ahead` transfers (tests/parallel/schedule_check_test.cpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/choices.h"

namespace trireme {

// Under zero_bubble `backward` is the gradient of the input alone and `backward_weight` follows;
// otherwise `backward` is all of it.
enum class ActionKind : std::uint8_t {
  forward,
  backward,
  backward_weight,
  send_forward,
  recv_forward,
  send_backward,
  recv_backward
};

struct Action {
  ActionKind kind = ActionKind::forward;
  int chunk = 0;
  int micro_batch = 0;
  friend constexpr bool operator==(const Action&, const Action&) = default;
};

struct ScheduleShape {
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  int stages = 1;
  int micro_batches = 1;  // of one step and one pipeline
  int chunks = 1;         // per stage
  friend constexpr bool operator==(const ScheduleShape&, const ScheduleShape&) = default;
};

inline constexpr int receives_ahead = 64;

[[nodiscard]] constexpr int virtual_stages(const ScheduleShape& shape) {
  return shape.stages * shape.chunks;
}
[[nodiscard]] constexpr int virtual_stage(const ScheduleShape& shape, int stage, int chunk) {
  return chunk * shape.stages + stage;
}
[[nodiscard]] constexpr bool is_compute(ActionKind kind) {
  return kind <= ActionKind::backward_weight;
}
// The action after which a micro-batch's kept activations are no longer read.
[[nodiscard]] constexpr ActionKind last_use(ScheduleKind kind) {
  return kind == ScheduleKind::zero_bubble ? ActionKind::backward_weight : ActionKind::backward;
}

// Why there is no such schedule, with values that work; nothing when there is one. Every other
// function here expects a supported shape.
[[nodiscard]] std::optional<std::string> unsupported(const ScheduleShape& shape);

// The list of one stage. Sends stand right behind the computation whose result they carry, receives
// as early as their slot and the order of their channel allow: at least one computation ahead of
// need, but for what the first computation needs and for a backward right behind its own forward.
[[nodiscard]] std::vector<Action> stage_actions(const ScheduleShape& shape, int stage);

// Slots for kept activations that (stage, chunk) needs; micro-batch m uses slot m % slots. It holds
// the slot from its recv_forward (its forward on virtual stage 0) until its last_use and its
// send_backward are both done. One more than are ever between forward and last use where an input
// is received ahead.
[[nodiscard]] int slots(const ScheduleShape& shape, int stage, int chunk);

// The other end of a transfer: the stage, and the send or receive that it lists for it.
struct Peer {
  int stage = 0;
  Action action;
};
[[nodiscard]] Peer peer_of(const ScheduleShape& shape, int stage, const Action& action);

// "F3", "B3", "W3", "SF3", "RF3", "SB3", "RB3" for micro-batch 3; "F3.1" in chunk 1 of several.
[[nodiscard]] std::string text_of(const Action& action, int chunks = 1);

// All stages together, as the checks and the timeline read it.
struct Schedule {
  ScheduleShape shape;
  std::vector<std::vector<Action>> actions;  // [stage]
  std::vector<std::vector<int>> slots;       // [stage][chunk]
};
[[nodiscard]] Schedule make_schedule(const ScheduleShape& shape);

}  // namespace trireme
