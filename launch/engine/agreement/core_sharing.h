// SPDX-License-Identifier: Apache-2.0
// Which ranks of a job have to share cores, and with what else.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/telemetry/machine_load.h"
#include "runtime/telemetry/verdict.h"

namespace trireme {

// Where one rank may run.
struct RankCores {
  std::string host;
  std::vector<int> cores;  // by its affinity mask, ascending
  double quota = 0;        // CPU seconds per second that its container may use; 0: any
};

// Ranks of one host that have no other cores than these.
struct CoreCrowd {
  std::string host;
  std::vector<int> ranks;
  int cores = 1;
  [[nodiscard]] bool crowded() const { return static_cast<int>(ranks.size()) > cores; }
};

// The ranks with the fewest cores each.
[[nodiscard]] CoreCrowd most_crowded(std::span<const RankCores> by_rank);
// Of the job. Collective; blocks the host.
[[nodiscard]] CoreCrowd most_crowded(Communicator& world);

// What one rank's meter tells, with the cores that all ranks of its host used as `own`, and the
// longest wait of any of them. Collective; blocks the host.
[[nodiscard]] std::vector<std::pair<std::string, MachineLoad>> load_of_hosts(
    Communicator& world, const MachineLoad& own);
// Of load_of_hosts(): where others took the largest part.
[[nodiscard]] HostLoad most_loaded(Communicator& world, const MachineLoad& own);

}  // namespace trireme
