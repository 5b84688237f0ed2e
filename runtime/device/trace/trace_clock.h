// SPDX-License-Identifier: Apache-2.0
// The clock of traces: this host's steady clock, in nanoseconds.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace trireme {

class TraceClock {
 public:
  [[nodiscard]] static std::int64_t now() noexcept {
    const auto time = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count() +
           ahead_.load(std::memory_order_relaxed);
  }
  // For tests of clock comparison: from here on this process's clock is `nanoseconds` ahead.
  static void put_ahead(std::int64_t nanoseconds) noexcept { ahead_ = nanoseconds; }
  [[nodiscard]] static std::int64_t ahead() noexcept { return ahead_; }

 private:
  inline static std::atomic<std::int64_t> ahead_ = 0;
};

}  // namespace trireme
