// SPDX-License-Identifier: Apache-2.0
// What the end of a job means, by its exit code and its log: what comes next, and whose fault it
// was.
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

// Hosts whose rank a signal ended, whose rank does not answer the others, and those that `trireme
// doctor` found a problem on, unless it did on all. `hosts`: of the job, of `ranks_per_node` ranks
// each in this order.
[[nodiscard]] std::vector<Blame> blamed_hosts(std::string_view log,
                                              const std::vector<std::string>& hosts,
                                              std::int64_t ranks_per_node);

// What the exit code of a run asks of whoever started it. Only this table says so; scripts ask for
// it with `trireme supervise --after CODE`.
enum class NextStep : std::uint8_t {
  none,     // done
  give_up,  // it would come again
  requeue,  // stopped with a checkpoint
  restart   // and a host may be to blame
};
[[nodiscard]] NextStep next_step(int code);
[[nodiscard]] std::string_view name_of(NextStep step);

// Whether a message, or a log, names what may pass by itself: a full disk, a directory that an
// ending job still holds, a lost host, a daemon that could not be started.
[[nodiscard]] bool may_pass(std::string_view text);

// Whether a job that ended with `code` and this log would end so again: an error of config or data
// that a rank or the batch script has named, or a loss that is not finite. Not a full disk, which
// may have taken the message with it, nor a directory that an earlier job still held.
[[nodiscard]] bool would_come_again(int code, std::string_view log);

// The last error in a log; empty where there is none.
[[nodiscard]] std::string last_error(std::string_view log);
// The same, or its last line: why a job ended.
[[nodiscard]] std::string last_message(std::string_view log);

}  // namespace trireme::campaign
