// SPDX-License-Identifier: Apache-2.0
// Which hosts the log of a failed job names as the cause.
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

// Whether a job that ended with `code` and this log would end so again: an error of config or data
// that a rank or the batch script has named, or a loss that is not finite. Not a full disk, which
// may have taken the message with it, nor a directory that an earlier job still held.
[[nodiscard]] bool would_come_again(int code, std::string_view log);

// The last error in a log, or its last line: why a job ended.
[[nodiscard]] std::string last_message(std::string_view log);

}  // namespace trireme::campaign
