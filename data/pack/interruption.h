// SPDX-License-Identifier: Apache-2.0
// A packer that is told to stop takes its unfinished output with it.
#pragma once

#include <signal.h>

#include <array>

namespace trireme {

// While it lives, the first SIGINT, SIGTERM or SIGHUP makes stop_if_asked() raise, and its
// destructor ends the process by that signal once the stack is unwound. A second one ends the
// process at once. Signals that were ignored stay so. One at a time.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

 private:
  static constexpr std::array signals_ = {SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, signals_.size()> before_{};
};

// For loops over blocks and images, in any thread. Raises ExitCode::internal.
void stop_if_asked();

}  // namespace trireme
