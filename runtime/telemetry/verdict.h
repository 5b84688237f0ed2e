// SPDX-License-Identifier: Apache-2.0
// Where the seconds of a finished run went over all ranks, what would have been gained without the
// largest loss, and what to do about it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/telemetry/advice.h"
#include "runtime/telemetry/metrics.h"

namespace trireme {

// Steps summed since some point.
struct StepTotals {
  std::int64_t steps = 0;
  std::int64_t items = 0;
  double loss = 0;  // sum of the steps' losses
  double step_ms = 0;
  double data_wait_ms = 0;
  double exposed_comm_ms = 0;
  double straggler_ms = 0;
  double bubble_ms = 0;
  double other_ms = 0;
  double core_wait_ms = 0;
  double core_straggler_ms = 0;
  double reduce_ms = 0;
  double reduce_wait_ms = 0;

  void add(const StepMetrics& metrics);
};

// A rank that stands out from its peers.
struct SlowRank {
  int rank = -1;           // none
  double seconds = 0;      // what it takes longer than they usually do, over the run
  double own_seconds = 0;  // what it takes itself
};

struct SlowRanks {
  SlowRank compute;  // its own work, with a core
  SlowRank data;     // waits for data
  SlowRank core;     // waits for a core
};

// `wall` covers the loop from the first batch to the last evaluation.
struct RunSummary {
  StepTotals totals;
  double wall_seconds = 0;
  double evaluation_seconds = 0;
  std::uint64_t peak_memory_bytes = 0;  // resident set of the rank that used most
  SlowRanks slow{};
  std::vector<std::string> hosts{};  // by rank; may be empty
};

// 0 of nothing.
[[nodiscard]] constexpr double percent(double part, double whole) {
  return whole > 0 ? 100 * part / whole : 0.0;
}

// One way to spend a run's time.
struct TimeShare {
  std::string_view name;
  std::string_view short_name;
  double seconds = 0;
  bool always_shown = true;  // else only where it is not 0
};

// They add up to the wall time; compute comes first. Means over the ranks.
[[nodiscard]] std::vector<TimeShare> shares_of(const RunSummary& summary);
// "verdict: ..." without a newline.
[[nodiscard]] std::string verdict(const RunSummary& summary, const RunFacts& facts);

}  // namespace trireme
