// SPDX-License-Identifier: Apache-2.0
// Requests of ranks at a step; step_exchange.h sends them to all ranks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace trireme {

// The maximum over all ranks counts, so a request that ranks see at different steps (a signal) is a
// count, not a bit.
struct StepFlags {
  enum Index : int {
    checkpoint_signals,  // number of outside requests
    checkpoint_times,    // number of times due by the clock
    self_test_times,     // the same for self tests
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
