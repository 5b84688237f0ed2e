// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/rules/trace_steps.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

namespace trireme {
namespace {

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || text.front() == '-' || error != std::errc() || stop != end)
    return std::nullopt;
  return value;
}

}  // namespace

std::optional<TraceSteps> parse_trace_steps(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto first = number(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : number(text.substr(dash + 1));
  if (!first || !last) return std::nullopt;
  return TraceSteps{*first, *last};
}

std::string problem_of_trace_steps(std::string_view text, std::int64_t steps) {
  const auto traced = parse_trace_steps(text);
  if (!traced)
    return fmt::format(
        "{} is neither a step nor a range of steps; write 10, 10-12, or \"\" for no "
        "trace",
        text);
  const auto [first, last] = *traced;
  if (first < 1) return fmt::format("{}: steps count from 1", text);
  if (last < first) return fmt::format("{} ends before it begins; write {}-{}", text, last, first);
  if (last > steps)
    return fmt::format(
        "{} is beyond the run's last step, train.steps = {}; trace steps up to {}, "
        "such as {}",
        text, steps, steps, std::min(first, steps));
  if (last - first >= most_traced_steps)
    return fmt::format("{} are {} steps and a trace has {} at most; write {}-{}", text,
                       last - first + 1, most_traced_steps, first, first + most_traced_steps - 1);
  return {};
}

}  // namespace trireme
