// SPDX-License-Identifier: Apache-2.0
// What self tests of all ranks say: who is slow, and who is wrong. A pure function.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trireme {

// One rank's; doubles, for ranks tell each other as they lie.
struct HealthSample {
  double gflops = 0;         // of the test matmul
  double wrong_rows = 0;     // of its result
  double link_mb_per_s = 0;  // of an exchange with both neighbours in the ring; 0: there are none
  double wrong_words = 0;    // of what came from the rank before
};

struct HealthReport {
  std::string summary;             // "4 ranks compute right, 85.2 to 90.1 GFLOP/s; links ..."
  std::vector<std::string> slow;   // a sentence each, with rank and host
  std::vector<std::string> wrong;  // nothing that such a machine computes can be trusted
};

// `hosts` by rank. Slow is a rank that reaches less than 0.6 of the others' median, or a link with
// less than half of what links of its kind reach in the median, within a host or between hosts,
// where there are at least three others.
[[nodiscard]] HealthReport judge_health(std::span<const HealthSample> by_rank,
                                        std::span<const std::string> hosts);
// Two tests in a row as one: what either found wrong, and the better speeds, for only what is slow
// twice is slow.
[[nodiscard]] std::vector<HealthSample> both_of(std::span<const HealthSample> first,
                                                std::span<const HealthSample> second);

}  // namespace trireme
