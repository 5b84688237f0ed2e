// SPDX-License-Identifier: Apache-2.0
// Private to this module: a rank's calls in one group, logged for the watchdog. A ring of fixed
// size; recording takes a briefly held mutex and allocates nothing.
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
  using Id = std::uint64_t;  // numbers the group's calls from 1
  // More than a stream queues. The log holds only the last `capacity` calls.
  static constexpr std::size_t capacity = 512;

  struct Entry {
    Id id = 0;
    // Its `sequence` is equal on all ranks of a call. Collectives with barrier and split, and the
    // messages of each pair and direction, are numbered separately from 1.
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

  // `group` identifies the group on all its ranks; `world_ranks[r]` is the world rank of its rank
  // r.
  CallLog(std::string name, std::uint64_t group, int rank, std::vector<int> world_ranks);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::uint64_t group() const { return group_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] const std::vector<int>& world_ranks() const { return world_ranks_; }

  // Numbers the call and stores it as queued, with the thread's label.
  [[nodiscard]] Id add(CallRecord call);
  // Returns the call's label.
  [[nodiscard]] CommLabel start(Id id) noexcept;
  [[nodiscard]] CommLabel label(Id id) const noexcept;
  // The host has enqueued calls first..last, which now wait for the device.
  void queue_again(Id first, Id last) noexcept;
  // Calls first..last have ended.
  void finish(Id first, Id last, CallState end) noexcept;

  // Whether a call that started before `before` has not ended, or one failed before it.
  [[nodiscard]] bool stuck_since(Clock::time_point before) const;
  // Whether a call has started and not ended.
  [[nodiscard]] bool waits() const;
  // Whether no call is open, or one failed and later ones were skipped.
  [[nodiscard]] bool over() const;
  // Oldest first: the last `last` calls and all open ones.
  static constexpr std::size_t all_entries = std::size_t{1} << 20;  // more than it ever holds
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
  Id first_open_ = 1;  // all earlier calls have ended
  std::uint64_t collectives_ = 0, host_calls_ = 0;
  std::vector<std::uint64_t> sends_, recvs_;  // by peer
  bool failed_ = false;
  Clock::time_point failed_at_;
};

}  // namespace trireme
