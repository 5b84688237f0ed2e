// SPDX-License-Identifier: Apache-2.0
// What a rank reports about itself: answers to other watchdogs and the dump file.
#include <algorithm>

#include "runtime/base/error.h"
#include "runtime/comm/watchdog/step_watch.h"
#include "runtime/comm/watchdog/watch_report.h"

namespace trireme {
namespace {

using Clock = CallLog::Clock;
using Verdict = WatchNote::Verdict;

constexpr std::size_t dumped_entries = 64;

// Whether `own` is this rank's part of the `asked` call, made by rank `asker` of the group.
bool corresponds(const CallRecord& own, const CallRecord& asked, int asker) {
  if (own.sequence != asked.sequence || is_message(own) != is_message(asked) ||
      is_host_call(own) != is_host_call(asked)) {
    return false;
  }
  return !is_message(own) || (own.kind != asked.kind && own.peer == asker);
}

bool differs(const CallRecord& own, const CallRecord& asked) {
  if (is_message(own)) return own.dtype != asked.dtype || own.count != asked.count;
  return !(own == asked);
}

// `it waits in group data: all_reduce(...) number 3, for 2.0 s`
std::string whereabouts(const CallLogs& logs) {
  const CallLog* where = nullptr;
  CallLog::Entry oldest;
  for (const auto& log : logs) {
    for (const CallLog::Entry& entry : log->entries(0)) {
      if (entry.state != CallState::started) continue;
      if (where != nullptr && oldest.started <= entry.started) continue;
      where = log.get();
      oldest = entry;
    }
  }
  if (where == nullptr) {
    const auto activity = current_activity();
    return activity ? "it waits in no call, but is at " + activity->to_string()
                    : "it waits in no call";
  }
  return fmt::format("it waits in group {}: {}, for {:.1f} s", where->name(), oldest.to_string(),
                     seconds_since(oldest.started));
}

std::string last_call_of(const CallLog& log) {
  const auto entries = log.entries(CallLog::all_entries);
  const auto last = std::find_if(entries.rbegin(), entries.rend(),
                                 [](const CallLog::Entry& entry) { return !entry.open(); });
  if (last == entries.rend()) return "it has finished no call of this group";
  return fmt::format("its last call in this group was {}, {} {:.1f} s ago", last->to_string(),
                     name_of(last->state), seconds_since(last->ended));
}

std::string describe(WatchNote& note, const CallLogs& logs) {
  const auto log = std::find_if(logs.begin(), logs.end(), [&](const std::shared_ptr<CallLog>& l) {
    return l->group() == note.group;
  });
  note.verdict = Verdict::late;
  if (log == logs.end())
    return "it does not have this group, not yet or no longer; " + whereabouts(logs);
  for (const CallLog::Entry& entry : (*log)->entries(CallLog::all_entries)) {
    if (!corresponds(entry.call, note.call, note.asker)) continue;
    if (differs(entry.call, note.call)) {
      note.verdict = Verdict::differs;
      return fmt::format("{} ({})", entry.to_string(), name_of(entry.state));
    }
    if (entry.state == CallState::started) {
      note.verdict = Verdict::waits_too;
      return {};
    }
    if (!entry.open()) {
      note.verdict = Verdict::over;
      return fmt::format("{} {:.1f} s ago; {}", name_of(entry.state), seconds_since(entry.ended),
                         whereabouts(logs));
    }
    return "it has queued the call, but " + whereabouts(logs);
  }
  return fmt::format("{}; {}", whereabouts(logs), last_call_of(**log));
}

}  // namespace

void answer_ask(WatchNote& note, const CallLogs& logs, int world_rank) {
  note.kind = WatchNote::Kind::answer;
  note.from = world_rank;
  if (note.has_call == 0) return;
  const std::string text = describe(note, logs);
  note.text = {};
  std::copy_n(text.data(), std::min(text.size(), note.text.size() - 1), note.text.data());
}

std::string dump_text(const CallLogs& logs, const std::string& why) {
  const auto activity = current_activity();
  std::string text = fmt::format(
      "{}\n{}\n{}\nCalls of each group, oldest first; seconds ago: queued, started, ended\n",
      process_label(), why, activity ? "at " + activity->to_string() : "between steps");
  const auto ago = [](bool known, Clock::time_point time) {
    return known ? fmt::format("{:.6f}", seconds_since(time)) : std::string("-");
  };
  for (const auto& log : logs) {
    text += fmt::format("group {} (rank {}; its ranks in the job: {})\n", log->name(), log->rank(),
                        fmt::join(log->world_ranks(), " "));
    for (const CallLog::Entry& entry : log->entries(dumped_entries)) {
      text +=
          fmt::format("  {:7}  {}  [{} {} {}]\n", name_of(entry.state), entry.to_string(),
                      ago(true, entry.queued), ago(entry.state != CallState::queued, entry.started),
                      ago(!entry.open(), entry.ended));
    }
  }
  return text;
}

}  // namespace trireme
