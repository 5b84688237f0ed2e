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

// A peer that is there already answers within the first polls. Then the core is only offered to
// others between polls (sched_yield): peers of a step answer within milliseconds, and a thread that
// sleeps wakes late, on virtual machines by 100 us and more. It still sleeps now and then, for
// sched_yield passes over threads of other sessions and cgroups. Later, much later if the rank
// stands still until the stream is done, it sleeps between short bursts, for one poll moves no more
// than fits in the queues of shared memory; the longer the wait so far, the longer the sleep.
// Measured: scripts/measurements/communication_cpu.txt.
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
    // The kernel may round a sleep up by the thread's timer slack, 50 us unless told otherwise.
    thread_local const int slack_set = prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
    static_cast<void>(slack_set);
    const auto waited = now - start_;
    const bool patient = waited < (stream_awaited() ? idle_patience : patience);
    std::this_thread::sleep_for(
        patient ? shortest : std::clamp<Clock::duration>(waited / 100, shortest, longest));
    if (patient) eager_until_ = Clock::now() + eager;
    burst_ = burst_polls;
  }

  // Since the first polls found nothing; 0 where they found all.
  [[nodiscard]] std::chrono::nanoseconds waited() const {
    return start_ == Clock::time_point{} ? Clock::duration{} : Clock::now() - start_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds eager{500}, patience{5000}, idle_patience{250000};
  static constexpr std::chrono::microseconds shortest{50}, longest{250};
  static constexpr int burst_polls = 16;
  Clock::time_point start_{};  // of the wait, set once the first polls have found nothing
  Clock::time_point eager_until_{};
  int burst_ = burst_polls;
};

}  // namespace trireme
