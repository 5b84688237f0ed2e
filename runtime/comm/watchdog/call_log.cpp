// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/watchdog/call_log.h"

#include <algorithm>

namespace trireme {

std::string_view name_of(CallState state) {
  switch (state) {
    case CallState::queued:
      return "queued";
    case CallState::started:
      return "started";
    case CallState::done:
      return "done";
    case CallState::failed:
      return "failed";
  }
  return "?";
}

std::string CallLog::Entry::to_string() const {
  return fmt::format("{} number {}{}", trireme::to_string(call), call.sequence, label.to_string());
}

CallLog::CallLog(std::string name, std::uint64_t group, int rank, std::vector<int> world_ranks)
    : name_(std::move(name)),
      group_(group),
      rank_(rank),
      world_ranks_(std::move(world_ranks)),
      sends_(world_ranks_.size()),
      recvs_(world_ranks_.size()) {}

std::uint64_t CallLog::next_number(const CallRecord& call) {
  if (is_host_call(call)) return ++host_calls_;
  if (!is_message(call)) return ++collectives_;
  auto& counts = static_cast<Verb>(call.kind) == Verb::send ? sends_ : recvs_;
  return ++counts[static_cast<std::size_t>(call.peer)];
}

CallLog::Id CallLog::add(CallRecord call) {
  const CommLabel label = current_comm_label();
  const auto now = Clock::now();
  const std::lock_guard lock(mutex_);
  call.sequence = next_number(call);
  const Id id = ++last_;
  if (last_ > capacity) first_open_ = std::max(first_open_, last_ - capacity + 1);
  Entry& entry = slot(id);
  entry.id = id;
  entry.call = call;
  entry.label = label;
  entry.state = CallState::queued;
  entry.queued = now;
  return id;
}

CommLabel CallLog::start(Id id) noexcept {
  const auto now = Clock::now();
  const std::lock_guard lock(mutex_);
  Entry& entry = slot(id);
  if (entry.id != id) return {};
  entry.state = CallState::started;
  entry.started = now;
  return entry.label;
}

CommLabel CallLog::label(Id id) const noexcept {
  const std::lock_guard lock(mutex_);
  return slot(id).id == id ? slot(id).label : CommLabel{};
}

void CallLog::queue_again(Id first, Id last) noexcept {
  const std::lock_guard lock(mutex_);
  for (Id id = first; id <= last; ++id) {
    Entry& entry = slot(id);
    if (entry.id == id && entry.state == CallState::started) entry.state = CallState::queued;
  }
}

void CallLog::finish(Id first, Id last, CallState end) noexcept {
  const auto now = Clock::now();
  const std::lock_guard lock(mutex_);
  for (Id id = std::max(first, first_open_); id <= last; ++id) {
    Entry& entry = slot(id);
    if (entry.id != id || !entry.open()) continue;
    if (end == CallState::failed && !failed_) {
      failed_ = true;
      failed_at_ = now;
    }
    if (entry.state == CallState::queued) entry.started = now;
    entry.state = end;
    entry.ended = now;
  }
  while (first_open_ <= last_ && !slot(first_open_).open())
    ++first_open_;
}

bool CallLog::stuck_since(Clock::time_point before) const {
  const std::lock_guard lock(mutex_);
  if (failed_ && failed_at_ < before) return true;
  for (Id id = first_open_; id <= last_; ++id) {
    const Entry& entry = slot(id);
    if (entry.state == CallState::started && entry.started < before) return true;
  }
  return false;
}

bool CallLog::waits() const {
  const std::lock_guard lock(mutex_);
  for (Id id = first_open_; id <= last_; ++id) {
    if (slot(id).state == CallState::started) return true;
  }
  return false;
}

bool CallLog::over() const {
  const std::lock_guard lock(mutex_);
  return failed_ || first_open_ > last_;
}

std::vector<CallLog::Entry> CallLog::entries(std::size_t last) const {
  std::vector<Entry> result;
  const std::lock_guard lock(mutex_);
  const Id kept = last_ > capacity ? last_ - capacity + 1 : 1;
  for (Id id = kept; id <= last_; ++id) {
    if (id + last > last_ || slot(id).open()) result.push_back(slot(id));
  }
  return result;
}

}  // namespace trireme
