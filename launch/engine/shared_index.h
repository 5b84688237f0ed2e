// SPDX-License-Identifier: Apache-2.0
// Ranks index files together; each rank scans a part of them.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/comm/communicator.h"

namespace trireme {

struct IndexWork {
  // Called on rank 0 alone: the list of files, and the known indexes by path.
  std::function<std::vector<std::string>()> list;
  std::function<std::unordered_map<std::string, std::string>(const std::vector<std::string>&)>
      known;
  // The index of each of these files, in order, as bytes; uses this many threads or processes.
  std::function<std::vector<std::string>(std::span<const std::string>, std::size_t)> scan;
};

// The indexes of all files, in order, on every rank. Collective. If a scan fails on any rank, all
// ranks raise its error.
[[nodiscard]] std::vector<std::string> share_indexes(Communicator& world, const IndexWork& work);

// Threads or processes that scan files, on each of `ranks` ranks.
[[nodiscard]] std::size_t scanners_here(int ranks);

}  // namespace trireme
