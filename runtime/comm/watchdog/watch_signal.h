// SPDX-License-Identifier: Apache-2.0
// Private to this module: wakes the watchdog's thread. When a rank dies, launchers send SIGTERM to
// the others and kill them a second later; the dump uses that second.
#pragma once

#include <chrono>
#include <cstdint>

namespace trireme {

class WatchSignal {
 public:
  enum class Request : std::uint8_t {
    none,
    dump,
    hurry,     // SIGTERM came, and the program handles it
    terminate  // SIGTERM came, and nobody else handles it
  };

  // Handles SIGTERM if it has its default action, and restores that.
  static void install();
  static void uninstall();

  // The watchdog's pause, which wake() and requests cut short.
  static void wait(std::chrono::nanoseconds pause);
  static void wake() noexcept;                    // async-signal-safe
  static void request(Request request) noexcept;  // async-signal-safe
  [[nodiscard]] static Request take() noexcept;
  // Whether `hurry` was ever requested.
  [[nodiscard]] static bool told_to_stop() noexcept;
  // Lets SIGTERM take its default action.
  static void end_process() noexcept;
};

}  // namespace trireme
