// SPDX-License-Identifier: Apache-2.0
// Private to this room: the pauses between polls of something that other ranks bring about.
#pragma once

#include <sys/prctl.h>

#include <chrono>
#include <thread>

#include "runtime/base/error.h"
#include "runtime/device/cpu/cpu_stream.h"

namespace trireme {

// At first there are no pauses, for a peer that is near answers soon. After that the core belongs
// to whoever computes, but for a short burst after each sleep: one poll moves no more than fits in
// the queues of shared memory. Never sched_yield: on a busy core it waits for everybody else's time
// slice, where a thread that slept is woken at once. Measured in README.md.
class Backoff {
 public:
  Backoff() {
    // The kernel may round a sleep up by the thread's timer slack, 50 us unless told otherwise.
    thread_local const int slack_set = prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
    static_cast<void>(slack_set);
  }
  void pause() {
    if (stream_cancelled()) {
      fail(ExitCode::communication, "gave up waiting for peers: this rank is ending with an error");
    }
    if (burst_-- > 0 || Clock::now() < eager_until_) return;
    std::this_thread::sleep_for(sleep_);
    burst_ = burst_polls;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds eager_{50};
  static constexpr std::chrono::microseconds sleep_{50};
  static constexpr int burst_polls = 16;
  Clock::time_point eager_until_ = Clock::now() + eager_;
  int burst_ = 0;
};

}  // namespace trireme
