// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/timing/stall_clock.h"

#include <utility>

namespace trireme {
namespace {

thread_local StreamClock* current = nullptr;

}  // namespace

ScopedStallClock::ScopedStallClock(StreamClock* clock) noexcept
    : outer_(std::exchange(current, clock)) {}

ScopedStallClock::~ScopedStallClock() {
  current = outer_;
}

void wait_for_comm(Stream& compute, Event& done) {
  StreamClock* const clock = compute.capturing() ? nullptr : current;
  if (clock != nullptr) clock->start(compute);
  compute.wait(done);
  if (clock != nullptr) clock->stop(compute);
}

}  // namespace trireme
