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

// The last error in a log, or its last line: why a job ended.
[[nodiscard]] std::string last_message(std::string_view log);

}  // namespace trireme::campaign
