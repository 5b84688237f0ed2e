// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/schedule.h"

#include <array>

#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::array<std::string_view, 7> action_names{"F", "B", "W", "SF", "RF", "SB", "RB"};

std::string multiples_near(int value, int unit) {
  const int above = (value / unit + 1) * unit;
  return value < unit ? fmt::format("{}", above) : fmt::format("{} or {}", above - unit, above);
}

}  // namespace

std::optional<std::string> unsupported(const ScheduleShape& shape) {
  if (shape.stages < 1 || shape.micro_batches < 1 || shape.chunks < 1) {
    return fmt::format(
        "{} stages, {} micro-batches and {} chunks; a pipeline has at least one of each",
        shape.stages, shape.micro_batches, shape.chunks);
  }
  if (shape.kind != ScheduleKind::interleaved) {
    if (shape.chunks == 1) return {};
    return fmt::format("{} runs 1 chunk per stage, not {}; use 1 chunk, or interleaved",
                       name_of(shape.kind), shape.chunks);
  }
  if (shape.stages == 1) return "interleaved needs 2 stages or more, not 1; use 2 stages, or 1f1b";
  if (shape.chunks == 1) {
    return "interleaved needs 2 chunks per stage or more, not 1; use 2 chunks, or 1f1b";
  }
  if (shape.micro_batches % shape.stages != 0) {
    return fmt::format(
        "interleaved needs a multiple of {} (its stages) micro-batches per step, not {}; use {} "
        "micro-batches, or 1f1b with 1 chunk",
        shape.stages, shape.micro_batches, multiples_near(shape.micro_batches, shape.stages));
  }
  return {};
}

Peer peer_of(const ScheduleShape& shape, int stage, const Action& action) {
  const int here = virtual_stage(shape, stage, action.chunk);
  const auto at = [&](int there, ActionKind kind) {
    TRIREME_EXPECTS(there >= 0 && there < virtual_stages(shape), "{} on stage {} has no peer",
                    text_of(action, shape.chunks), stage);
    return Peer{there % shape.stages, {kind, there / shape.stages, action.micro_batch}};
  };
  switch (action.kind) {
    case ActionKind::send_forward:
      return at(here + 1, ActionKind::recv_forward);
    case ActionKind::recv_forward:
      return at(here - 1, ActionKind::send_forward);
    case ActionKind::send_backward:
      return at(here - 1, ActionKind::recv_backward);
    case ActionKind::recv_backward:
      return at(here + 1, ActionKind::send_backward);
    default:
      break;
  }
  TRIREME_EXPECTS(!is_compute(action.kind), "{} is not a transfer", text_of(action, shape.chunks));
  return {};
}

std::string text_of(const Action& action, int chunks) {
  const std::string_view name = action_names.at(static_cast<std::size_t>(action.kind));
  return chunks == 1 ? fmt::format("{}{}", name, action.micro_batch)
                     : fmt::format("{}{}.{}", name, action.micro_batch, action.chunk);
}

Schedule make_schedule(const ScheduleShape& shape) {
  Schedule schedule{shape, {}, {}};
  for (int stage = 0; stage < shape.stages; ++stage) {
    schedule.actions.push_back(stage_actions(shape, stage));
    std::vector<int>& of_chunk = schedule.slots.emplace_back();
    for (int chunk = 0; chunk < shape.chunks; ++chunk)
      of_chunk.push_back(slots(shape, stage, chunk));
  }
  return schedule;
}

}  // namespace trireme
