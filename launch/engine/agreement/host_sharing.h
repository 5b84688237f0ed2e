// SPDX-License-Identifier: Apache-2.0
// Checks for files that must exist on every host of a job.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/comm/communicator.h"

namespace trireme {

// Hosts that lack `path` while others have it; empty if all or none have it. The same on all ranks;
// each passes a path. Waits a few seconds for file systems that show new files late. Collective;
// blocks the host.
[[nodiscard]] std::vector<std::string> hosts_without(Communicator& world, const std::string& path);

// Raises ExitCode::data on all ranks if some hosts lack a data set that others have. `key` is the
// config key.
void require_data_on_all_hosts(Communicator& world, std::string_view key, const std::string& path);
// Raises ExitCode::config likewise for `file`, written by rank 0 into the run directory.
void require_shared_run_directory(Communicator& world, const std::string& directory,
                                  const std::string& file);

}  // namespace trireme
