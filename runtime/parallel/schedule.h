// SPDX-License-Identifier: Apache-2.0
// Pipeline schedules as data: the ordered actions of each stage. Pure functions of the shape,
// without devices; schedule_check.h proves a schedule, schedule_timeline.h times it.
//
// Chunk c of stage s is virtual stage c * stages + s; micro-batches pass the virtual stages in
// order, so the forward of chunk c on the last stage goes to chunk c + 1 on stage 0.
//
// Channels. A stage has four, each with its own stream and order: send_forward (to the next stage),
// recv_forward (from the previous), send_backward (to the previous), recv_backward (from the next).
// With two stages the next and previous stage are one rank; the channels stay separate. A send
// completes once its receive is posted (no buffering is assumed) and blocks only its own channel. A
// receive enqueues; the forward or backward of the same (chunk, micro-batch) waits for it.
//
// A stage lists at most `receives_ahead` receives of a channel ahead of the computations that read
// them. Each occupies its stream's queue until its message comes, and a stage that waits for queue
// space cannot compute what the message depends on. Schedules cannot deadlock if streams can queue
// `receives_ahead` transfers (tests/parallel/schedule_check_test.cpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/choices.h"

namespace trireme {

// Under zero_bubble `backward` computes only the input's gradient and `backward_weight` follows;
// otherwise `backward` computes both.
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
// The last action that reads a micro-batch's kept activations.
[[nodiscard]] constexpr ActionKind last_use(ScheduleKind kind) {
  return kind == ScheduleKind::zero_bubble ? ActionKind::backward_weight : ActionKind::backward;
}

// Why the shape is not supported, with values that work; nothing if it is. All other functions here
// expect a supported shape.
[[nodiscard]] std::optional<std::string> unsupported(const ScheduleShape& shape);

// The actions of one stage. A send follows the computation whose result it carries. Receives come
// as early as their slot and channel order allow: at least one computation ahead, except for the
// input of the first computation and for a backward right after its own forward.
[[nodiscard]] std::vector<Action> stage_actions(const ScheduleShape& shape, int stage);

// Number of slots for kept activations of (stage, chunk); micro-batch m uses slot m % slots. It
// holds the slot from its recv_forward (virtual stage 0: its forward) until its last_use and its
// send_backward are done. If inputs are received ahead, one more than the most micro-batches
// between forward and last use.
[[nodiscard]] int slots(const ScheduleShape& shape, int stage, int chunk);

// The other end of a transfer: the stage, and its matching send or receive.
struct Peer {
  int stage = 0;
  Action action;
};
[[nodiscard]] Peer peer_of(const ScheduleShape& shape, int stage, const Action& action);

// "F3", "B3", "W3", "SF3", "RF3", "SB3", "RB3" for micro-batch 3; "F3.1" in chunk 1 of several.
[[nodiscard]] std::string text_of(const Action& action, int chunks = 1);

// All stages, for the checks and the timeline.
struct Schedule {
  ScheduleShape shape;
  std::vector<std::vector<Action>> actions;  // [stage]
  std::vector<std::vector<int>> slots;       // [stage][chunk]
};
[[nodiscard]] Schedule make_schedule(const ScheduleShape& shape);

}  // namespace trireme
