// SPDX-License-Identifier: Apache-2.0
// The cost of block checksums in a loader, from page cache to device batches.
#pragma once

#include <cstdint>
#include <string>

#include "data/sets/dataset.h"

namespace trireme {

struct LoaderBench {
  std::string path;
  std::int64_t context = 0;
  std::int64_t threads = 1;
  std::uint64_t samples = 0;  // limit of a first pass
  std::int64_t rounds = 1;    // of each of the four; the best one counts
  double seconds = 0;         // of a round that is not a first pass
};

// Processor time of block checksums in all of the loader's threads.
struct BlockCost {
  double share = 0;
  double nanoseconds = 0;  // per sample
};

// Samples per second.
struct LoaderRates {
  // A data set with all blocks verified, and one without block checks.
  double later = 0, later_unchecked = 0;
  // A freshly opened data set that verifies blocks as it reads them, and one without block checks.
  double first = 0, first_unchecked = 0;
  // Medians over the rounds of two passes each. Processor time, because waits between threads
  // depend mostly on the machine.
  BlockCost later_cost, first_cost;
};

// Rounds of the four alternate, so other load affects all of them.
[[nodiscard]] LoaderRates measure_loader(const LoaderBench& bench);

// Samples per second of a loader with `threads` threads and batches of 16, over `seconds`.
[[nodiscard]] double loader_rate(const Dataset& data, std::int64_t threads, double seconds);

}  // namespace trireme
