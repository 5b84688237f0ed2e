// SPDX-License-Identifier: Apache-2.0
// Keeps one command running until its run is done: launch/supervise.sh. A campaign chooses jobs;
// this starts the command that it was given, on the hosts that answer, in the foreground.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace trireme::campaign {

struct SuperviseOptions {
  std::int64_t max_restarts = 10, backoff = 5, no_progress = 3, min_ranks = 1;
  std::vector<int> restart_on{};
  std::string run{};                                          // empty: as the command says
  std::vector<std::pair<std::string, std::int64_t>> hosts{};  // each with its ranks
  std::vector<std::int64_t> ranks{};                          // that the run can have; empty: any
  std::vector<std::string> command{};
};

// To the end; gives the exit code. Before any other thread is there: takes SIGINT, SIGTERM and
// SIGUSR1, which go on to the job. Raises ExitCode::config where the run is not known, or its
// directory cannot be used.
[[nodiscard]] int supervise(const SuperviseOptions& options);

}  // namespace trireme::campaign
