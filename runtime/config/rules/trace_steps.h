// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

// Traced steps, counted from 1.
struct TraceSteps {
  std::int64_t first = 0, last = 0;
  friend bool operator==(const TraceSteps&, const TraceSteps&) = default;
};

// The whole trace stays in memory until its last step ends.
inline constexpr std::int64_t most_traced_steps = 100;

// `text` is "10-12" or "10"; nothing for anything else.
[[nodiscard]] std::optional<TraceSteps> parse_trace_steps(std::string_view text);
// What is wrong with `text` in a run of `steps` steps, with the fix; empty if nothing.
[[nodiscard]] std::string problem_of_trace_steps(std::string_view text, std::int64_t steps);

}  // namespace trireme
