// SPDX-License-Identifier: Apache-2.0
// Private to this room: what one rank called in one group, kept for the watchdog. A ring of fixed
// size; recording locks a mutex that nobody holds for long and allocates nothing.
#pragma once

#include <array>
#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/comm/call_record.h"
#include "runtime/comm/comm_label.h"

namespace trireme {

enum class CallState : std::uint8_t { queued, started, done, failed };

[[nodiscard]] std::string_view name_of(CallState state);

class CallLog {
 public:
  using Clock = std::chrono::steady_clock;
  using Id = std::uint64_t;  // counts the group's calls from 1
  // More than a stream queues. Only entries of the last `capacity` calls are still there.
  static constexpr std::size_t capacity = 512;

  struct Entry {
    Id id = 0;
    // Its `sequence` is the same on all ranks of a call: collectives, barrier and split, and the
    // messages of each pair and direction are counted apart, from 1.
    CallRecord call;
    CommLabel label;
    CallState state = CallState::queued;
    Clock::time_point queued, started, ended;

    [[nodiscard]] bool open() const {
      return state == CallState::queued || state == CallState::started;
    }
    // `all_reduce(f32, count 12, sum) number 7 "bucket 3" of step 12`
    [[nodiscard]] std::string to_string() const;
  };

  // `group` names the group alike on all its ranks; `world_ranks[r]` is the job's rank of its rank
  // r.
  CallLog(std::string name, std::uint64_t group, int rank, std::vector<int> world_ranks);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::uint64_t group() const { return group_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] const std::vector<int>& world_ranks() const { return world_ranks_; }

  // Numbers the call and keeps it as queued, with the thread's label.
  [[nodiscard]] Id add(CallRecord call);
  // Gives back the call's label.
  [[nodiscard]] CommLabel start(Id id) noexcept;
  [[nodiscard]] CommLabel label(Id id) const noexcept;
  // The host has enqueued the calls first..last; they wait for their turn on the device.
  void queue_again(Id first, Id last) noexcept;
  // The calls first..last are over.
  void finish(Id first, Id last, CallState end) noexcept;

  // A call that started before `before` is not over, or one failed before it.
  [[nodiscard]] bool stuck_since(Clock::time_point before) const;
  // A call has started and is not over.
  [[nodiscard]] bool waits() const;
  // Nothing is open, or a call failed and what came after it was skipped.
  [[nodiscard]] bool over() const;
  // Oldest first: the last `last` calls and all open ones.
  static constexpr std::size_t all_entries = std::size_t{1} << 20;  // more than it ever keeps
  [[nodiscard]] std::vector<Entry> entries(std::size_t last) const;

 private:
  [[nodiscard]] Entry& slot(Id id) { return ring_[id % capacity]; }
  [[nodiscard]] const Entry& slot(Id id) const { return ring_[id % capacity]; }
  [[nodiscard]] std::uint64_t next_number(const CallRecord& call);

  std::string name_;
  std::uint64_t group_;
  int rank_;
  std::vector<int> world_ranks_;

  mutable std::mutex mutex_;
  std::array<Entry, capacity> ring_{};
  Id last_ = 0;
  Id first_open_ = 1;  // everything before is over
  std::uint64_t collectives_ = 0, host_calls_ = 0;
  std::vector<std::uint64_t> sends_, recvs_;  // by peer
  bool failed_ = false;
  Clock::time_point failed_at_;
};

}  // namespace trireme
