// SPDX-License-Identifier: Apache-2.0
// ranks.jsonl of a run, in bounded memory: its starts, and each rank's times in windows of steps.
// As tolerant as metrics_history.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/telemetry/bottleneck/run_fold.h"

namespace trireme::report {

// Sums over steps whose times all ranks have reported.
struct WindowRows {
  std::int64_t first = 0, last = 0;
  StepTotals totals{};
  // Milliseconds by rank; the maximum over ranks that share a row.
  std::vector<float> late{}, data_wait{};
};

struct RankHistory {
  std::vector<RunStart> starts{};  // if there are very many, the first and last ones
  std::int64_t start_count = 0;
  std::vector<WindowRows> windows{};
  int ranks = 0;                // of the widest window
  int ranks_per_row = 1;        // of the windows
  int ranks_of_last_start = 0;  // number in its windows
  std::int64_t broken = 0, first_broken = 0;
  RunFold fold{};  // input of the bottleneck analysis
};

// Raises ExitCode::data if the file cannot be read.
[[nodiscard]] RankHistory read_ranks(const std::string& path);

}  // namespace trireme::report
