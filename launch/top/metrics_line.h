// SPDX-License-Identifier: Apache-2.0
// One line of metrics.jsonl, as much of it as a screen shows.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace trireme::top {

// A part of a step's time: its key, and how the screen calls it.
struct StepPart {
  std::string_view key, name;
};
// They add up to step_ms.
inline constexpr std::array<StepPart, 8> step_parts{{{"forward_ms", "forward"},
                                                     {"backward_ms", "backward"},
                                                     {"optimizer_ms", "optimizer"},
                                                     {"data_wait_ms", "data wait"},
                                                     {"exposed_comm_ms", "communication"},
                                                     {"straggler_ms", "slower ranks"},
                                                     {"bubble_ms", "bubble"},
                                                     {"other_ms", "other"}}};

inline constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

// Numbers that the line lacks, or that were not finite, are NaN.
struct StepLine {
  std::int64_t step = 0;
  double loss = unknown, grad_norm = unknown, lr = unknown, epoch = unknown, step_ms = unknown;
  double core_wait_ms = unknown, items_per_s = unknown, mfu = unknown, joules = unknown;
  std::string_view items{};  // "tokens", "images"; empty where the line has neither
  std::array<double, step_parts.size()> parts_ms{};
};
struct EvaluationLine {
  std::int64_t step = 0;
  double loss = unknown, accuracy = unknown, seconds = 0;
};
// What a run warns of: a skipped batch, a checkpoint that failed, and warnings as such.
struct WarningLine {
  std::int64_t step = 0;
  std::string text{};
};
// None of them, or torn.
struct OtherLine {};
using MetricsLine = std::variant<OtherLine, StepLine, EvaluationLine, WarningLine>;

[[nodiscard]] MetricsLine parse_metrics_line(std::string_view line);

}  // namespace trireme::top
