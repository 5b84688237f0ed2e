// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/lr_factors.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace trireme {

std::int64_t rounded_up(double steps) {
  constexpr double rounding = 1e-12;
  return std::llround(std::ceil(steps * (1 - rounding)));
}

std::vector<LrFactor> lr_factors(std::span<const std::string> texts, std::string& problem) {
  std::vector<LrFactor> factors;
  for (const std::string& text : texts) {
    LrFactor next;
    const char* const end = text.data() + text.size();
    const auto step = std::from_chars(text.data(), end, next.step);
    const bool split = step.ec == std::errc() && step.ptr != end && *step.ptr == ':';
    const auto factor = split ? std::from_chars(step.ptr + 1, end, next.factor) : step;
    if (!split || factor.ec != std::errc() || factor.ptr != end || next.step < 0 ||
        !std::isfinite(next.factor) || next.factor < 0) {
      problem = fmt::format(
          "\"{}\" is not STEP:FACTOR: from STEP on (counted from 0) the rate is FACTOR (0 or more) "
          "times learning_rate",
          text);
      return {};
    }
    if (!factors.empty() && next.step <= factors.back().step)
      problem = fmt::format("step {} does not come after step {}", next.step, factors.back().step);
    factors.push_back(next);
  }
  return factors;
}

}  // namespace trireme
