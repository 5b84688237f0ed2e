// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/timing/stall_clock.h"

#include "runtime/device/trace/trace_log.h"

namespace trireme {

void StallClock::begin_step(std::int64_t step) {
  for (Clocks& clocks : phases_) {
    for (StreamClock& clock : clocks)
      clock.begin_step(step);
  }
}

StallClock::Milliseconds StallClock::milliseconds(std::int64_t step) const {
  std::array<double, 3> phases{}, causes{};
  for (std::size_t phase = 0; phase < phases_.size(); ++phase) {
    for (std::size_t cause = 0; cause < causes.size(); ++cause) {
      const double spent = phases_[phase][cause].milliseconds(step);
      phases[phase] += spent;
      causes[cause] += spent;
    }
  }
  constexpr auto sum = static_cast<std::size_t>(StallCause::sum);
  return {.forward = phases[StallPhase::forward],
          .backward = phases[StallPhase::backward],
          .update = phases[StallPhase::update],
          .gathers = causes[static_cast<std::size_t>(StallCause::gather)],
          .experts = causes[static_cast<std::size_t>(StallCause::experts)],
          .update_sums = phases_[StallPhase::update][sum].milliseconds(step)};
}

StallPhase::StallPhase(StallClock& clock, Phase phase) noexcept
    : clock_(clock), outer_(clock.now_) {
  clock.now_ = &clock.phases_[phase];
}

void wait_for_comm(Stream& compute, Event& done, StallClock* clock, StallCause cause) {
  StreamClock* const timer = clock == nullptr || clock->now_ == nullptr || compute.capturing()
                                 ? nullptr
                                 : &(*clock->now_)[static_cast<std::size_t>(cause)];
  const TraceSpan span(TraceKind::wait, compute, "wait for communication");
  if (timer != nullptr) timer->start(compute);
  compute.wait(done);
  if (timer != nullptr) timer->stop(compute);
}

void StreamClock::begin_step(std::int64_t step) {
  now_ = &steps_[static_cast<std::size_t>(step % 2)];
  now_->used = 0;
}

void StreamClock::start(Stream& stream) {
  if (now_->used == now_->pieces.size()) {
    now_->pieces.push_back(
        {device_.make_event(EventKind::timed), device_.make_event(EventKind::timed)});
  }
  stream.record(*now_->pieces[now_->used].start);
}

void StreamClock::stop(Stream& stream) {
  stream.record(*now_->pieces[now_->used++].stop);
}

double StreamClock::milliseconds(std::int64_t step) const {
  const Step& of = steps_[static_cast<std::size_t>(step % 2)];
  double sum = 0;
  for (std::size_t i = 0; i < of.used; ++i)
    sum += of.pieces[i].stop->milliseconds_since(*of.pieces[i].start);
  return sum;
}

}  // namespace trireme
