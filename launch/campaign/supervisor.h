// SPDX-License-Identifier: Apache-2.0
// Restarts one command until its run is done: launch/supervise.sh. A campaign chooses jobs; this
// runs the given command on the hosts that answer, in the foreground.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace trireme::campaign {

struct SuperviseOptions {
  std::int64_t max_restarts = 10, backoff = 5, no_progress = 3, min_ranks = 1;
  std::vector<int> restart_on{};
  std::string run{};                                          // empty: taken from the command
  std::vector<std::pair<std::string, std::int64_t>> hosts{};  // host and its ranks
  std::vector<std::int64_t> ranks{};  // rank counts that the run allows; empty: any
  std::vector<std::string> command{};
};

// Returns the exit code. Call it before other threads start: it takes SIGINT, SIGTERM and SIGUSR1
// and passes them to the job. Raises ExitCode::config if the run is unknown or its directory cannot
// be used.
[[nodiscard]] int supervise(const SuperviseOptions& options);

}  // namespace trireme::campaign
