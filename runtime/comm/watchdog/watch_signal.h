// SPDX-License-Identifier: Apache-2.0
// Private to this room: what wakes the watchdog's thread. Launchers end the other ranks of a dead
// one with SIGTERM and kill them a second later; that second is for the dump.
#pragma once

#include <chrono>
#include <cstdint>

namespace trireme {

class WatchSignal {
 public:
  enum class Request : std::uint8_t {
    none,
    dump,
    hurry,     // SIGTERM came, and the program answers it by itself
    terminate  // SIGTERM came, and nobody else answers it
  };

  // Takes SIGTERM over where it has its default action, and gives it back.
  static void install();
  static void uninstall();

  // The watchdog's pause, which wake() and the requests cut short.
  static void wait(std::chrono::nanoseconds pause);
  static void wake() noexcept;                    // async-signal-safe
  static void request(Request request) noexcept;  // async-signal-safe
  [[nodiscard]] static Request take() noexcept;
  // `hurry` was requested at any time so far.
  [[nodiscard]] static bool told_to_stop() noexcept;
  // Lets SIGTERM do what it would have done.
  static void end_process() noexcept;
};

}  // namespace trireme
