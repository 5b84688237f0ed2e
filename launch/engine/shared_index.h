// SPDX-License-Identifier: Apache-2.0
// What ranks find out about files together, each about its part of them.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/comm/communicator.h"

namespace trireme {

struct IndexWork {
  // Asked of rank 0 alone: which files there are, and what is known of some of them, by path.
  std::function<std::vector<std::string>()> list;
  std::function<std::unordered_map<std::string, std::string>(const std::vector<std::string>&)>
      known;
  // The index of each of some files, in their order, as bytes; with so many threads or processes.
  std::function<std::vector<std::string>(std::span<const std::string>, std::size_t)> scan;
};

// The indexes of all files, in their order, on every rank. Collective. Raises, on every rank, the
// error that the scan of any rank has raised.
[[nodiscard]] std::vector<std::string> share_indexes(Communicator& world, const IndexWork& work);

// Threads or processes that look at files, on each of so many ranks.
[[nodiscard]] std::size_t scanners_here(int ranks);

}  // namespace trireme
