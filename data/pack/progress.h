// SPDX-License-Identifier: Apache-2.0
// Progress of a long command on stderr: on a terminal a line that rewrites itself, otherwise
// occasional lines.
#pragma once

#include <signal.h>
#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace trireme {

class Progress {
 public:
  // `unit` "bytes" prints MB and MB/s; other units are printed as given. Silent if `shown` is
  // false.
  Progress(std::string label, std::uint64_t total, std::string unit, bool shown);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void add(std::uint64_t amount);  // thread-safe

 private:
  void print(bool last);

  using Clock = std::chrono::steady_clock;
  std::string label_;
  std::string unit_;
  std::uint64_t total_;
  bool shown_;
  bool terminal_;
  std::mutex mutex_;
  std::uint64_t done_ = 0;
  bool printed_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_;
};

// Lets a packer that is told to stop remove its unfinished output.

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
