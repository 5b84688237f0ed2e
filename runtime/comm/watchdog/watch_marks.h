// SPDX-License-Identifier: Apache-2.0
// Private to this room: where a group's calls stand that run on a GPU. Two events around the calls
// tell; the watchdog's thread looks at them, so a call counts as started or over from the first
// look after it was.
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

  // Around what enqueues the calls first..last, by the thread that enqueues. While it does, they
  // count as started: the host may wait there for other ranks. begin() blocks while too many calls
  // are on their way.
  void begin(Stream& stream, CallLog::Id first, CallLog::Id last);
  void end(Stream& stream);
  // Updates the log, from any thread.
  void look();
  // No more calls will come, and all are over.
  void close();

 private:
  // Their calls stay in the log's ring.
  static constexpr std::size_t capacity = CallLog::capacity / 4;

  struct Mark {
    CallLog::Id first = 0, last = 0;
    std::unique_ptr<Event> begun, over;
    bool started = false;
  };

  std::shared_ptr<CallLog> log_;
  std::mutex mutex_;
  std::vector<Mark> ring_;  // events are made when first needed
  std::size_t oldest_ = 0;  // marks [oldest_, next_) are on their way
  std::size_t next_ = 0;
};

}  // namespace trireme
