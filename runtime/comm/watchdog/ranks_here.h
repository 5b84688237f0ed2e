// SPDX-License-Identifier: Apache-2.0
// Private to this room: the ranks of this job on this host, as the kernel tells of their processes:
// before MPI_Init is over they cannot be asked.
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
