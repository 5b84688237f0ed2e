// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/timing/stall_clock.h"

namespace trireme {

void StallClock::begin_step(std::int64_t step) {
  for (StreamClock* const clock : {&forward_, &backward_, &update_})
    clock->begin_step(step);
}

StallClock::Milliseconds StallClock::milliseconds(std::int64_t step) const {
  return {.forward = forward_.milliseconds(step),
          .backward = backward_.milliseconds(step),
          .update = update_.milliseconds(step)};
}

StallPhase::StallPhase(StallClock& clock, Phase phase) noexcept
    : clock_(clock), outer_(clock.now_) {
  clock.now_ = phase == forward    ? &clock.forward_
               : phase == backward ? &clock.backward_
                                   : &clock.update_;
}

void wait_for_comm(Stream& compute, Event& done, StallClock* clock) {
  StreamClock* const timer = clock == nullptr || compute.capturing() ? nullptr : clock->now_;
  if (timer != nullptr) timer->start(compute);
  compute.wait(done);
  if (timer != nullptr) timer->stop(compute);
}

}  // namespace trireme
