// SPDX-License-Identifier: Apache-2.0
// Private to this module: the texts of the watchdog. No threads, no MPI.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/comm/watchdog/call_log.h"
#include "runtime/comm/watchdog/watch_channel.h"

namespace trireme {

using CallLogs = std::vector<std::shared_ptr<CallLog>>;

// What one rank finds out and prints about a stuck call or step: questions to peers, their answers,
// the message.
class WatchReport {
 public:
  // The call of `logs` that has been stuck the longest; none if no call is stuck.
  [[nodiscard]] static std::optional<WatchReport> of_stuck_call(const CallLogs& logs,
                                                                CallLog::Clock::time_point before,
                                                                int world_rank, int world_size);

  // This rank is stuck in `activity`, and not because of other ranks.
  [[nodiscard]] static WatchReport of_stuck_step(const std::string& activity, int world_rank,
                                                 int world_size);

  // One per rank that is waited for, and one to every other rank of the job to make it dump.
  struct Question {
    int to = 0;  // rank in the job
    WatchNote note;
    bool answered = false;
  };
  [[nodiscard]] std::span<const Question> questions() const { return questions_; }
  void answer(const WatchNote& note);
  [[nodiscard]] bool complete() const { return unanswered_ == 0; }

  // First line: what waits and for how long. Further lines: who is late and what it does.
  [[nodiscard]] std::string headline() const;
  [[nodiscard]] std::string message(double deadline_seconds) const;

 private:
  WatchReport() = default;
  void ask_peers(const CallLog::Entry& entry, int world_rank);
  void ask_others(int world_rank, int world_size);
  [[nodiscard]] std::string line(const Question& question) const;

  std::string step_;              // for a stuck step; otherwise the next two
  std::shared_ptr<CallLog> log_;  // the group
  CallLog::Entry stuck_;          // and its call
  std::vector<Question> questions_;
  std::size_t unanswered_ = 0;
};

// Fills in what this rank knows about the call that an ask names.
void answer_ask(WatchNote& note, const CallLogs& logs, int world_rank);

// The dump file's text: what the rank was doing, and the last calls of every group.
[[nodiscard]] std::string dump_text(const CallLogs& logs, const std::string& why);

}  // namespace trireme
