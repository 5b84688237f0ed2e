// SPDX-License-Identifier: Apache-2.0
// ranks.jsonl of a run, in bounded memory: its starts, and what each rank did in windows of steps.
// As tolerant as metrics_history.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/telemetry/verdict/run_fold.h"

namespace trireme::report {

// Steps of which every rank told its times: sums over them.
struct WindowRows {
  std::int64_t first = 0, last = 0;
  StepTotals totals{};
  // Milliseconds by rank; of a group of ranks that share a row the greatest.
  std::vector<float> late{}, data_wait{};
};

struct RankHistory {
  std::vector<RunStart> starts{};  // of very many the first and the last ones
  std::int64_t start_count = 0;
  std::vector<WindowRows> windows{};
  int ranks = 0;                // of the widest window
  int ranks_per_row = 1;        // of the windows
  int ranks_of_last_start = 0;  // that its windows tell of
  std::int64_t broken = 0, first_broken = 0;
  RunFold fold{};  // of the last start: what the verdict is a function of
};

// Raises ExitCode::data where the file cannot be read at all.
[[nodiscard]] RankHistory read_ranks(const std::string& path);

}  // namespace trireme::report
