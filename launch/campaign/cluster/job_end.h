// SPDX-License-Identifier: Apache-2.0
// The meaning of a job's end, from its exit code and log: the next step, and the failed hosts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::campaign {

struct Blame {
  std::string host{}, reason{};
  friend bool operator==(const Blame&, const Blame&) = default;
};

// Hosts with a rank that was ended by a signal or that does not answer the others, and hosts with a
// problem in `trireme doctor`, unless all have one. `hosts`: of the job, in rank order,
// `ranks_per_node` ranks each.
[[nodiscard]] std::vector<Blame> blamed_hosts(std::string_view log,
                                              const std::vector<std::string>& hosts,
                                              std::int64_t ranks_per_node);

// The action after a run's exit code. This is the only such table; scripts query it with `trireme
// supervise --after CODE`.
enum class NextStep : std::uint8_t {
  none,     // done
  give_up,  // the error would repeat
  requeue,  // stopped with a checkpoint
  restart   // and a host may be to blame
};
[[nodiscard]] NextStep next_step(int code);
[[nodiscard]] std::string_view name_of(NextStep step);

// Whether a message or log names a temporary problem: a full disk, a directory that an ending job
// still holds, a lost host, a daemon that could not start.
[[nodiscard]] bool may_pass(std::string_view text);

// Whether a job with this `code` and log would fail again: an error in config or data that a rank
// or the batch script reported, or a non-finite loss. False for a full disk, which may have lost
// the message, and for a directory that an earlier job still held.
[[nodiscard]] bool would_come_again(int code, std::string_view log);

// The last error in a log, or "".
[[nodiscard]] std::string last_error(std::string_view log);
// The last error or else the last line: why a job ended.
[[nodiscard]] std::string last_message(std::string_view log);

}  // namespace trireme::campaign
