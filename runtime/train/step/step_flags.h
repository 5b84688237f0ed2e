// SPDX-License-Identifier: Apache-2.0
// What ranks wish for at a step; step_exchange.h brings it to all of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace trireme {

// The largest value of any rank counts, so a wish that several ranks have at different steps (a
// signal that reaches them one after another) is a count, not a bit.
struct StepFlags {
  enum Index : int {
    checkpoint_signals,  // so many times asked for from outside
    checkpoint_times,    // so many times due by the clock
    self_test_times,     // the same of self tests
    stop,                // StopReason
    count
  };
  std::array<std::int32_t, count> values{};
  [[nodiscard]] std::int32_t operator[](Index index) const {
    return values[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] std::int32_t& operator[](Index index) {
    return values[static_cast<std::size_t>(index)];
  }
  friend bool operator==(const StepFlags&, const StepFlags&) = default;
};

}  // namespace trireme
