// SPDX-License-Identifier: Apache-2.0
// Private to this room: the pauses between polls of something that other ranks bring about.
#pragma once

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "runtime/base/error.h"
#include "runtime/device/cpu/cpu_stream.h"

namespace trireme {

// At first the core is only offered to others between polls (sched_yield): peers of a step answer
// within milliseconds, and a thread that sleeps wakes late, on virtual machines by 100 us and more.
// It still sleeps now and then, for sched_yield passes over threads of other sessions and cgroups.
// Later it sleeps between short bursts, for one poll moves no more than fits in the queues of
// shared memory; the longer the wait so far, the longer the sleep. Measured in README.md.
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
    if (burst_-- > 0) return;
    if (Clock::now() < eager_until_) return std::this_thread::yield();
    const auto waited = Clock::now() - start_;
    std::this_thread::sleep_for(std::clamp<Clock::duration>(waited / 100, shortest, longest));
    if (waited < patience) eager_until_ = Clock::now() + eager;
    burst_ = burst_polls;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds eager{500}, patience{5000};
  static constexpr std::chrono::microseconds shortest{50}, longest{250};
  static constexpr int burst_polls = 16;
  Clock::time_point start_ = Clock::now();
  Clock::time_point eager_until_ = start_ + eager;
  int burst_ = 0;
};

}  // namespace trireme
