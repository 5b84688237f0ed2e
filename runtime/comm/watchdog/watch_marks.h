// SPDX-License-Identifier: Apache-2.0
// Private to this module: the progress of a group's calls on a GPU, from two events around them.
// The watchdog's thread polls the events, so a call counts as started or ended from the next poll
// on.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "runtime/comm/watchdog/call_log.h"
#include "runtime/device/device.h"

namespace trireme {

class WatchMarks {
 public:
  explicit WatchMarks(std::shared_ptr<CallLog> log) : log_(std::move(log)) {}

  // Call them around the code that enqueues calls first..last, on the same thread. In between the
  // calls count as started, because the host may wait there for other ranks. begin() blocks while
  // too many calls are in flight.
  void begin(Stream& stream, CallLog::Id first, CallLog::Id last);
  void end(Stream& stream);
  // Updates the log; callable from any thread.
  void look();
  // Call it when all calls have ended and no more will come.
  void close();

 private:
  // The log's ring must still hold their calls.
  static constexpr std::size_t capacity = CallLog::capacity / 4;

  struct Mark {
    CallLog::Id first = 0, last = 0;
    std::unique_ptr<Event> begun, over;
    bool started = false;
  };

  std::shared_ptr<CallLog> log_;
  std::mutex mutex_;
  std::vector<Mark> ring_;  // events are made on first use
  std::size_t oldest_ = 0;  // marks [oldest_, next_) are in flight
  std::size_t next_ = 0;
};

}  // namespace trireme
