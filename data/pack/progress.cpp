// SPDX-License-Identifier: Apache-2.0
#include "data/pack/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>

#include "runtime/base/error.h"

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

namespace {

std::atomic<int> asked = 0;
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler must not wait for a lock");

void on_signal(int signal) {
  asked = signal;
}

}  // namespace

Interruption::Interruption() {
  asked = 0;
  struct sigaction ours {};
  ours.sa_handler = on_signal;
  ours.sa_flags = SA_RESETHAND;  // no SA_RESTART: interrupts a blocking read of a pipe
  for (std::size_t i = 0; i < signals_.size(); ++i) {
    if (::sigaction(signals_[i], nullptr, &before_[i]) != 0) system_failed("sigaction", "");
    if (before_[i].sa_handler != SIG_IGN) ::sigaction(signals_[i], &ours, nullptr);
  }
}

Interruption::~Interruption() {
  for (std::size_t i = 0; i < signals_.size(); ++i)
    ::sigaction(signals_[i], &before_[i], nullptr);
  const int signal = asked.exchange(0);
  if (signal == 0) return;
  std::fprintf(stderr, "\nstopped by %s\n", ::strsignal(signal));
  ::raise(signal);
}

void stop_if_asked() {
  if (const int signal = asked; signal != 0) {
    fail(ExitCode::internal, "stopped by {}; nothing was written", ::strsignal(signal));
  }
}

}  // namespace trireme
