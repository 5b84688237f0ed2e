// SPDX-License-Identifier: Apache-2.0
#include "data/pack/interruption.h"

#include <atomic>
#include <cstdio>
#include <cstring>

#include "runtime/base/error.h"

namespace trireme {
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
