// SPDX-License-Identifier: Apache-2.0
// Private to this module: pauses between polls while waiting for other ranks.
#pragma once

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "runtime/base/error.h"
#include "runtime/device/cpu/cpu_stream.h"

namespace trireme {

// A present peer answers within the first polls. Then the core is offered to others between polls
// (sched_yield): peers of a step answer within milliseconds, and a sleeping thread wakes late, on
// virtual machines by 100 us and more. It still sleeps now and then, because sched_yield skips
// threads of other sessions and cgroups. Later it sleeps between short bursts of polls, since one
// poll moves only what fits in the shared-memory queues; the longer the wait so far, the longer the
// sleep. If the rank blocks until the stream is done, this begins much later. Measured:
// scripts/measurements/communication_cpu.txt.
class Backoff {
 public:
  void pause() {
    if (stream_cancelled()) {
      fail(ExitCode::communication, "gave up waiting for peers: this rank is ending with an error");
    }
    if (burst_-- > 0) return;
    const auto now = Clock::now();
    if (start_ == Clock::time_point{}) {
      start_ = now;
      eager_until_ = now + eager;
    }
    if (now < eager_until_) return std::this_thread::yield();
    // By default the kernel may round a sleep up by the thread's timer slack of 50 us.
    thread_local const int slack_set = prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
    static_cast<void>(slack_set);
    const auto waited = now - start_;
    const bool patient = waited < (stream_awaited() ? idle_patience : patience);
    std::this_thread::sleep_for(
        patient ? shortest : std::clamp<Clock::duration>(waited / 100, shortest, longest));
    if (patient) eager_until_ = Clock::now() + eager;
    burst_ = burst_polls;
  }

  // Since the first polls failed; 0 if they succeeded.
  [[nodiscard]] std::chrono::nanoseconds waited() const {
    return start_ == Clock::time_point{} ? Clock::duration{} : Clock::now() - start_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds eager{500}, patience{5000}, idle_patience{250000};
  static constexpr std::chrono::microseconds shortest{50}, longest{250};
  static constexpr int burst_polls = 16;
  Clock::time_point start_{};  // of the wait; set once the first polls have failed
  Clock::time_point eager_until_{};
  int burst_ = burst_polls;
};

}  // namespace trireme
