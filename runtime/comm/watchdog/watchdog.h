// SPDX-License-Identifier: Apache-2.0
// Private to this module: the thread that watches the calls of all groups of this process and ends
// the job if a call, or a step that waits for nobody, is stuck.
//
// Note [The end of a stuck job]
// The rank whose deadline passes first writes its dump and asks all other ranks; their watchdogs
// write theirs and answer, whatever their other threads do. When all have answered, or after
// `answer_patience`, it prints the message and aborts the job. Ranks that were asked leave the
// abort to the one that asked (of several, the lowest), and end the job themselves if nothing
// happens. Dumps and messages precede anything that could block, and an alarm backs all of it up.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

#include "runtime/comm/watchdog/watch_channel.h"
#include "runtime/comm/watchdog/watch_marks.h"
#include "runtime/comm/watchdog/watch_report.h"
#include "runtime/comm/watchdog/watched.h"

namespace trireme {

class Watchdog {
 public:
  // The process's only one. The first caller makes it, which is collective over the job; the last
  // owner destroys it.
  [[nodiscard]] static std::shared_ptr<Watchdog> of_process(const WatchOptions& options);

  explicit Watchdog(const WatchOptions& options);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  [[nodiscard]] int rank() const { return channel_.rank(); }
  [[nodiscard]] int size() const { return channel_.size(); }
  void add(std::shared_ptr<CallLog> log, std::shared_ptr<WatchMarks> marks);
  // No more calls will come; queued ones are still watched.
  void retire(const CallLog* log);

 private:
  using Clock = CallLog::Clock;

  void run();
  void turn(Clock::time_point now);
  [[nodiscard]] Clock::duration deadline_now() const;
  void look_at_marks();
  void answer_notes();
  void look_for_trouble(Clock::time_point now);
  void look_for_stuck_step(Clock::time_point before);
  void ask();
  void conclude();
  void dump(const std::string& why);
  void dump_on_sigterm();
  void lose_channel(const char* reason);
  [[nodiscard]] std::string dump_path() const;
  [[nodiscard]] CallLogs logs();

  WatchOptions options_;
  Clock::duration deadline_;
  WatchChannel channel_;
  bool channel_works_ = true;

  struct Watched {
    std::shared_ptr<CallLog> log;
    std::shared_ptr<WatchMarks> marks;
    bool retired = false;
  };
  std::mutex mutex_;  // guards groups_
  std::vector<Watched> groups_;

  // Only the watchdog's thread uses these.
  Clock::time_point awake_since_ = Clock::now();
  Clock::time_point last_turn_ = Clock::now();
  std::optional<WatchReport> report_;
  Clock::time_point give_up_;  // of report_
  int led_by_ = -1;            // the rank that will end the job
  bool dumped_ = false;
  bool hurried_ = false;
  bool dumped_on_sigterm_ = false;  // deleted if the run then ends well

  std::atomic<bool> stop_ = false;
  std::thread thread_;  // last: it uses all others
};

}  // namespace trireme
