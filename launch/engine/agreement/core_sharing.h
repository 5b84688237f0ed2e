// SPDX-License-Identifier: Apache-2.0
// The ranks of a job that share cores, and the other load there.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/telemetry/bottleneck/bottleneck.h"
#include "runtime/telemetry/machine_load.h"

namespace trireme {

// The cores that one rank may run on.
struct RankCores {
  std::string host;
  std::vector<int> cores;  // in its affinity mask, ascending
  double quota = 0;        // CPU seconds per second that its container may use; 0: no limit
};

// Ranks of one host that share these cores and have no others.
struct CoreCrowd {
  std::string host;
  std::vector<int> ranks;
  int cores = 1;
  [[nodiscard]] bool crowded() const { return static_cast<int>(ranks.size()) > cores; }
};

// The group with the fewest cores per rank.
[[nodiscard]] CoreCrowd most_crowded(std::span<const RankCores> by_rank);
// Over the job. Collective; blocks the host.
[[nodiscard]] CoreCrowd most_crowded(Communicator& world);

// One rank's meter, over the cores that it may use.
struct RankLoad {
  std::string host;
  std::vector<int> cores;
  MachineLoad load;
};
using HostLoads = std::vector<std::pair<std::string, MachineLoad>>;

// Per host, in the order of ranks: `own` summed over all its ranks, the longest wait of any, and
// the rest over the cores of all ranks, each core once. Of sets of cores that overlap only the
// largest counts.
[[nodiscard]] HostLoads load_of_hosts(std::span<const RankLoad> by_rank);
// Over the job. Collective; blocks the host.
[[nodiscard]] HostLoads load_of_hosts(Communicator& world, const MachineLoad& own);
// The host of load_of_hosts() that lost the largest part to other processes.
[[nodiscard]] HostLoad most_loaded(Communicator& world, const MachineLoad& own);

}  // namespace trireme
