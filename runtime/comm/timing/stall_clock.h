// SPDX-License-Identifier: Apache-2.0
// How long a compute stream stands still for communication. Every wait of one for a collective goes
// through wait_for_comm(); while a ScopedStallClock lives on the thread, its clock times them.
#pragma once

#include "runtime/comm/timing/stream_clock.h"

namespace trireme {

// Null times nothing. Scopes nest; `clock` must outlive the object.
class ScopedStallClock {
 public:
  explicit ScopedStallClock(StreamClock* clock) noexcept;
  ~ScopedStallClock();
  ScopedStallClock(const ScopedStallClock&) = delete;
  ScopedStallClock& operator=(const ScopedStallClock&) = delete;

 private:
  StreamClock* outer_;
};

// Work enqueued on `compute` from here on starts after `done`. Recorded work is not timed: its
// events mean nothing to the host.
void wait_for_comm(Stream& compute, Event& done);

}  // namespace trireme
