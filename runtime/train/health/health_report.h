// SPDX-License-Identifier: Apache-2.0
// Evaluates the self tests of all ranks: who is slow, and who is wrong. A pure function.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trireme {

// One rank's results; doubles, because ranks exchange them as bytes.
struct HealthSample {
  double gflops = 0;         // of the test matmul
  double wrong_rows = 0;     // wrong rows of its result
  double link_mb_per_s = 0;  // exchanging with both neighbours in the ring; 0: none
  double wrong_words = 0;    // wrong words received from the previous rank
};

struct HealthReport {
  std::string summary;             // "4 ranks compute right, 85.2 to 90.1 GFLOP/s; links ..."
  std::vector<std::string> slow;   // a sentence each, with rank and host
  std::vector<std::string> wrong;  // results of these machines cannot be trusted
};

// `hosts` by rank. A rank is slow below 0.6 of the others' median, a link below half of the median
// of its kind (within a host or between hosts), if there are at least three others.
[[nodiscard]] HealthReport judge_health(std::span<const HealthSample> by_rank,
                                        std::span<const std::string> hosts);
// Merges two consecutive tests: all errors, and the better speeds, so a rank must be slow twice.
[[nodiscard]] std::vector<HealthSample> both_of(std::span<const HealthSample> first,
                                                std::span<const HealthSample> second);

}  // namespace trireme
