// SPDX-License-Identifier: Apache-2.0
// What block checksums cost a loader, from page cache to device batches.
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

struct LoaderBench {
  std::string path;
  std::int64_t context = 0;
  std::int64_t threads = 1;
  std::uint64_t samples = 0;  // read in a first pass at most
  std::int64_t rounds = 1;    // of each of the four; the best counts
  double seconds = 0;         // of a round that is no first pass
};

// Samples per second.
struct LoaderRates {
  // Of a data set whose blocks have all been verified, and of one that does not look at them.
  double later = 0, later_unchecked = 0;
  // Of one just opened, whose blocks are verified as they are read, and of one that does not.
  double first = 0, first_unchecked = 0;
  // What looking takes of the time: the median of the rounds, each of two that follow one another.
  double later_cost = 0, first_cost = 0;
};

// Rounds of the four alternate, so that other load on the machine hits none of them alone.
[[nodiscard]] LoaderRates measure_loader(const LoaderBench& bench);

}  // namespace trireme
