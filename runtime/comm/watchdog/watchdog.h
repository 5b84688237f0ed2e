// SPDX-License-Identifier: Apache-2.0
// Private to this room: the thread that watches the calls of all groups of this process and ends
// the job when one is stuck, or a step that waits for nobody.
//
// Note [The end of a stuck job]
// The rank whose deadline passes first writes its dump and asks all other ranks; their watchdogs
// write theirs and answer, whatever their other threads do. When all have answered, or after
// `answer_patience`, it prints the message and aborts the job. Ranks that have been asked leave the
// end to the one that asked (of several, to the lowest), and end the job themselves when nothing
// happens. Dumps and messages come before anything that could block, and an alarm stands behind
// all of it.
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
  // The one of this process; made by the first who asks for it, which is collective over the job,
  // and gone with its last owner.
  [[nodiscard]] static std::shared_ptr<Watchdog> of_process(const WatchOptions& options);

  explicit Watchdog(const WatchOptions& options);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  [[nodiscard]] int rank() const { return channel_.rank(); }
  [[nodiscard]] int size() const { return channel_.size(); }
  void add(std::shared_ptr<CallLog> log, std::shared_ptr<WatchMarks> marks);
  // No more calls will come; what is queued is still watched.
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
  void dump_in_a_hurry();
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
  std::mutex mutex_;  // of groups_
  std::vector<Watched> groups_;

  // Only the thread uses these.
  Clock::time_point awake_since_ = Clock::now();
  Clock::time_point last_turn_ = Clock::now();
  std::optional<WatchReport> report_;
  Clock::time_point give_up_;  // of report_
  int led_by_ = -1;            // the rank that will end the job
  bool dumped_ = false;
  bool hurried_ = false;
  bool dumped_in_a_hurry_ = false;  // a run that then ends well has no use for it

  std::atomic<bool> stop_ = false;
  std::thread thread_;  // last: it uses all others
};

}  // namespace trireme
