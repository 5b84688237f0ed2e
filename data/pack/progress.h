// SPDX-License-Identifier: Apache-2.0
// Progress of a long command on stderr: on a terminal a line that rewrites itself, otherwise
// occasional lines.
#pragma once

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

}  // namespace trireme
