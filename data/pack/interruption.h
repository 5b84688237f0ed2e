// SPDX-License-Identifier: Apache-2.0
// Lets an interrupted packer remove its unfinished output.
#pragma once

#include <signal.h>

#include <array>

namespace trireme {

// While it exists, the first SIGINT, SIGTERM or SIGHUP makes stop_if_asked() raise, and the
// destructor ends the process by that signal after unwinding. A second signal ends the process at
// once. Ignored signals stay ignored. One at a time.
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

// For loops over blocks and images, on any thread. Raises ExitCode::internal.
void stop_if_asked();

}  // namespace trireme
