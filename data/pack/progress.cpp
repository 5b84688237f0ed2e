// SPDX-License-Identifier: Apache-2.0
#include "data/pack/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace trireme {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds terminal_interval(200);
constexpr milliseconds log_interval(5000);

}  // namespace

Progress::Progress(std::string label, std::uint64_t total, std::string unit, bool shown)
    : label_(std::move(label)),
      unit_(std::move(unit)),
      total_(total),
      shown_(shown),
      terminal_(::isatty(STDERR_FILENO) == 1),
      next_(start_ + (terminal_ ? terminal_interval : log_interval)) {}

Progress::~Progress() {
  const std::lock_guard lock(mutex_);
  if (shown_ && printed_) print(true);
}

void Progress::add(std::uint64_t amount) {
  const std::lock_guard lock(mutex_);
  done_ += amount;
  if (!shown_ || Clock::now() < next_) return;
  next_ = Clock::now() + (terminal_ ? terminal_interval : log_interval);
  print(false);
}

void Progress::print(bool last) {
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  const double scale = unit_ == "bytes" ? 1e-6 : 1;
  const char* const unit = unit_ == "bytes" ? "MB" : unit_.c_str();
  const double share = total_ == 0 ? 1.0 : static_cast<double>(done_) / static_cast<double>(total_);
  const std::string line =
      fmt::format("{}: {:.0f} of {:.0f} {} ({:.0f} %), {:.0f} {}/s", label_,
                  static_cast<double>(done_) * scale, static_cast<double>(total_) * scale, unit,
                  100 * share, static_cast<double>(done_) * scale / std::max(seconds, 1e-9), unit);
  std::fprintf(stderr, terminal_ ? "\r%s\x1b[K%s" : "%s%s", line.c_str(),
               terminal_ && !last ? "" : "\n");
  std::fflush(stderr);
  printed_ = true;
}

}  // namespace trireme
