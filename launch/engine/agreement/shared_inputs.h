// SPDX-License-Identifier: Apache-2.0
// Inputs that must be equal on all ranks of a job. A host's copy of the program or of the data may
// differ, and so may the target of a relative path: ranks would silently train on it. All functions
// are collective and raise their error, with ranks, hosts and their values, on all ranks
// (comm/same_on_all_ranks.h). Weights and checkpoints are compared where they are found
// (checkpoint/restore/verify.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/sets/dataset.h"
#include "runtime/comm/communicator.h"
#include "runtime/config/config.h"

namespace trireme {

// Call this first; raises ExitCode::config.
void require_same_program(Communicator& world);
void require_same_config(Communicator& world, const Config& resolved);

// Compares fingerprints; `what` names the data set in the message. Raises ExitCode::data.
void require_same_data(Communicator& world, std::string_view what, const std::string& path,
                       const Dataset& dataset);

// Checks for files that must exist on every host of a job.

// Hosts that lack `path` while others have it; empty if all or none have it. The same on all ranks;
// each passes a path. Waits a few seconds for file systems that show new files late. Collective;
// blocks the host.
[[nodiscard]] std::vector<std::string> hosts_without(Communicator& world, const std::string& path);

// Raises ExitCode::data on all ranks if some hosts lack a data set that others have. `key` is the
// config key.
void require_data_on_all_hosts(Communicator& world, std::string_view key, const std::string& path);
// Raises ExitCode::config, too, for `file`, written by rank 0 into the run directory.
void require_shared_run_directory(Communicator& world, const std::string& directory,
                                  const std::string& file);

}  // namespace trireme
