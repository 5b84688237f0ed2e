// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/watchdog/watch_marks.h"

namespace trireme {

void WatchMarks::begin(Stream& stream, CallLog::Id first, CallLog::Id last) {
  look();
  Event* full = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (next_ - oldest_ == capacity) full = ring_[oldest_ % capacity].over.get();
  }
  if (full != nullptr) {
    full->synchronize();
    look();
  }
  for (CallLog::Id id = first; id <= last; ++id)
    static_cast<void>(log_->start(id));
  const std::lock_guard lock(mutex_);
  if (ring_.size() < capacity && next_ == ring_.size()) {
    Device& device = stream.device();
    ring_.push_back({.begun = device.make_event(), .over = device.make_event()});
  }
  Mark& mark = ring_[next_ % capacity];
  mark.first = first;
  mark.last = last;
  mark.started = false;
  stream.record(*mark.begun);
}

void WatchMarks::end(Stream& stream) {
  const std::lock_guard lock(mutex_);
  const Mark& mark = ring_[next_ % capacity];
  stream.record(*mark.over);
  log_->queue_again(mark.first, mark.last);
  ++next_;
}

void WatchMarks::look() {
  const std::lock_guard lock(mutex_);
  for (; oldest_ < next_; ++oldest_) {
    Mark& mark = ring_[oldest_ % capacity];
    try {
      if (!mark.started) {
        if (!mark.begun->reached()) return;
        for (CallLog::Id id = mark.first; id <= mark.last; ++id)
          static_cast<void>(log_->start(id));
        mark.started = true;
      }
      if (!mark.over->reached()) return;
      log_->finish(mark.first, mark.last, CallState::done);
    } catch (const Error&) {  // a GPU error; waiting for the stream raises it
      log_->finish(mark.first, mark.last, CallState::failed);
    }
  }
}

void WatchMarks::close() {
  look();
  const std::lock_guard lock(mutex_);
  ring_.clear();
  oldest_ = next_ = 0;
}

}  // namespace trireme
