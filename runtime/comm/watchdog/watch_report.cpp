// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/watchdog/watch_report.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace trireme {
namespace {

using Clock = CallLog::Clock;
using Verdict = WatchNote::Verdict;

constexpr int calls_in_message = 16;

bool is_stuck(const CallLog::Entry& entry, Clock::time_point before) {
  return (entry.state == CallState::started && entry.started < before) ||
         (entry.state == CallState::failed && entry.ended < before);
}

std::string rank_text(const CallLog& log, int rank) {
  const int world_rank = log.world_ranks()[static_cast<std::size_t>(rank)];
  if (world_rank == rank) return fmt::format("rank {}", world_rank);
  return fmt::format("rank {} (rank {} of the group)", world_rank, rank);
}

}  // namespace

std::optional<WatchReport> WatchReport::of_stuck_call(const CallLogs& logs,
                                                      Clock::time_point before, int world_rank,
                                                      int world_size) {
  std::shared_ptr<CallLog> stuck_log;
  CallLog::Entry stuck;
  for (const auto& log : logs) {
    if (!log->stuck_since(before)) continue;
    for (const CallLog::Entry& entry : log->entries(CallLog::all_entries)) {
      if (!is_stuck(entry, before)) continue;
      if (stuck_log == nullptr || entry.started < stuck.started) {
        stuck_log = log;
        stuck = entry;
      }
    }
  }
  if (stuck_log == nullptr) return {};
  WatchReport report;
  report.log_ = stuck_log;
  report.stuck_ = stuck;
  // Calls between group_begin and group_end wait together; the first collective represents all.
  bool asked_collective = false;
  for (const CallLog::Entry& entry : stuck_log->entries(0)) {
    if (entry.state != CallState::started) continue;
    if (!is_message(entry.call) && std::exchange(asked_collective, true)) continue;
    report.ask_peers(entry, world_rank);
  }
  report.ask_others(world_rank, world_size);
  return report;
}

WatchReport WatchReport::of_stuck_step(const std::string& activity, int world_rank,
                                       int world_size) {
  WatchReport report;
  report.step_ =
      fmt::format("rank {} is stuck, but does not wait for other ranks: {}", world_rank, activity);
  report.ask_others(world_rank, world_size);
  return report;
}

void WatchReport::ask_peers(const CallLog::Entry& entry, int world_rank) {
  const auto ranks = static_cast<int>(log_->world_ranks().size());
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == log_->rank() || (is_message(entry.call) && rank != entry.call.peer)) continue;
    Question& question = questions_.emplace_back();
    question.to = log_->world_ranks()[static_cast<std::size_t>(rank)];
    question.note.from = world_rank;
    question.note.group = log_->group();
    question.note.call = entry.call;
    question.note.has_call = 1;
    question.note.asker = log_->rank();
    question.note.question = static_cast<std::int32_t>(questions_.size() - 1);
  }
}

void WatchReport::ask_others(int world_rank, int world_size) {
  for (int rank = 0; rank < world_size; ++rank) {
    const bool asked = std::any_of(questions_.begin(), questions_.end(),
                                   [&](const Question& question) { return question.to == rank; });
    if (rank == world_rank || asked) continue;
    Question& question = questions_.emplace_back();
    question.to = rank;
    question.note.from = world_rank;
    question.note.question = static_cast<std::int32_t>(questions_.size() - 1);
  }
  unanswered_ = questions_.size();
}

void WatchReport::answer(const WatchNote& note) {
  const auto index = static_cast<std::size_t>(note.question);
  if (index >= questions_.size() || questions_[index].answered) return;
  questions_[index].answered = true;
  questions_[index].note = note;
  --unanswered_;
}

std::string WatchReport::headline() const {
  if (log_ == nullptr) return step_;
  if (stuck_.state == CallState::failed) {
    return fmt::format("group {}: {} failed {:.1f} s ago, but this rank has not ended since then",
                       log_->name(), stuck_.to_string(), seconds_since(stuck_.ended));
  }
  return fmt::format("group {}: {} has waited {:.1f} s for other ranks", log_->name(),
                     stuck_.to_string(), seconds_since(stuck_.started));
}

std::string WatchReport::line(const Question& question) const {
  const CallLog& log = *log_;
  const auto& members = log.world_ranks();
  const auto member = std::find(members.begin(), members.end(), question.to) - members.begin();
  const std::string who = rank_text(log, static_cast<int>(member));
  if (!question.answered) {
    return fmt::format("{} does not answer: the process is stopped, dead, unreachable or has ended",
                       who);
  }
  const char* const text = question.note.text.data();
  switch (question.note.verdict) {
    case Verdict::late:
      return fmt::format("{} is late for {} number {}: {}", who, to_string(question.note.call),
                         question.note.call.sequence, text);
    case Verdict::differs:
      return fmt::format("{} calls something else: {}", who, text);
    case Verdict::over:
      return fmt::format("{} is past this call: {}", who, text);
    case Verdict::waits_too:
    case Verdict::none:
      return {};
  }
  return {};
}

std::string WatchReport::message(double deadline_seconds) const {
  std::string text =
      fmt::format("{} (deadline parallel.timeout_seconds: {})", headline(), deadline_seconds);
  int lines = 0;
  for (const Question& question : questions_) {
    if (question.note.has_call == 0) continue;
    const std::string line_text = line(question);
    if (line_text.empty()) continue;
    if (++lines <= calls_in_message) text += "\n  " + line_text;
  }
  if (lines > calls_in_message) {
    text += fmt::format("\n  and {} more", lines - calls_in_message);
  }
  if (lines == 0 && log_ != nullptr && stuck_.state != CallState::failed) {
    text += "\n  every rank it waits for is in the same call: the network does not carry it";
  }
  return text;
}

}  // namespace trireme
