// SPDX-License-Identifier: Apache-2.0
// Files that must be on every host of a job.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/comm/communicator.h"

namespace trireme {

// Hosts on which `path` does not exist, though it does on others; empty where it is everywhere or
// nowhere. The same on all ranks, which call this with a path each. Waits a few seconds for file
// systems that show new files late. Collective; blocks the host.
[[nodiscard]] std::vector<std::string> hosts_without(Communicator& world, const std::string& path);

// Raises ExitCode::data on all ranks alike where some hosts lack a data set that others have. `key`
// is the config's.
void require_data_on_all_hosts(Communicator& world, std::string_view key, const std::string& path);
// Raises ExitCode::config likewise for `file`, which rank 0 has written into the run directory.
void require_shared_run_directory(Communicator& world, const std::string& directory,
                                  const std::string& file);

}  // namespace trireme
