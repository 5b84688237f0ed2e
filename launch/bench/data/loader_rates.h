// SPDX-License-Identifier: Apache-2.0
// What block checksums cost a loader, from page cache to device batches.
#pragma once

#include <cstdint>
#include <string>

#include "data/sets/dataset.h"

namespace trireme {

struct LoaderBench {
  std::string path;
  std::int64_t context = 0;
  std::int64_t threads = 1;
  std::uint64_t samples = 0;  // read in a first pass at most
  std::int64_t rounds = 1;    // of each of the four; the best counts
  double seconds = 0;         // of a round that is no first pass
};

// What looking at block checksums takes of the processor time of all of the loader's threads.
struct BlockCost {
  double share = 0;
  double nanoseconds = 0;  // of a sample
};

// Samples per second.
struct LoaderRates {
  // Of a data set whose blocks have all been verified, and of one that does not look at them.
  double later = 0, later_unchecked = 0;
  // Of one just opened, whose blocks are verified as they are read, and of one that does not.
  double first = 0, first_unchecked = 0;
  // Medians of the rounds, each of two passes that follow one another. Of processor time, since
  // how long threads wait for each other is mostly the machine's doing.
  BlockCost later_cost, first_cost;
};

// Rounds of the four alternate, so that other load on the machine hits none of them alone.
[[nodiscard]] LoaderRates measure_loader(const LoaderBench& bench);

// Samples per second of a loader of so many threads, in batches of 16, over `seconds`.
[[nodiscard]] double loader_rate(const Dataset& data, std::int64_t threads, double seconds);

}  // namespace trireme
