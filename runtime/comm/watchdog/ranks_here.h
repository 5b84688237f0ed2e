// SPDX-License-Identifier: Apache-2.0
// Private to this room: the job's ranks on this host, from the kernel's process table, because
// ranks cannot be asked before MPI_Init has ended.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace trireme {

struct RanksHere {
  std::set<int> found;
  // "rank 1 is stopped (process 812 on node7)"
  std::vector<std::string> missing;
};

[[nodiscard]] RanksHere ranks_here();

}  // namespace trireme
