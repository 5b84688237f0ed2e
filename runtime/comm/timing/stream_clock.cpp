// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/timing/stream_clock.h"

namespace trireme {

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
