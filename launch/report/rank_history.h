// SPDX-License-Identifier: Apache-2.0
// ranks.jsonl of a run, in bounded memory: its starts, and what each rank did in windows of steps.
// As tolerant as metrics_history.h.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/telemetry/verdict/run_fold.h"

namespace trireme::report {

struct RunStart {
  std::int64_t step = 0;  // done before
  LostSteps lost{};       // behind it
  double time = 0;        // seconds since 1970; 0: not known
  int ranks = 0;
  std::vector<std::string> hosts{};  // by rank
  std::map<std::string, int> mesh{};
  std::string facts{};  // JSON; empty: none
};

// Steps of which every rank told its times.
struct RankWindow {
  std::int64_t first = 0, last = 0, steps = 0;
  double time = 0;
  std::map<std::string, double> split{};  // mean milliseconds of a step, by category
  // The file has means; here are sums over the window's steps, by key and then by rank; of a group
  // of ranks that share a row the greatest.
  std::map<std::string, std::vector<float>> by_rank{};
};

struct RankHistory {
  std::vector<RunStart> starts{};  // of very many the first and the last ones
  std::int64_t start_count = 0;
  std::vector<RankWindow> windows{};
  int ranks = 0;           // of the widest line
  int ranks_per_row = 1;   // of the windows
  std::int64_t steps = 0;  // of all windows
  // Of every rank over all windows of the last start's layout.
  std::map<std::string, std::vector<double>> totals{};
  std::int64_t totals_steps = 0;
  std::int64_t broken = 0, first_broken = 0;
  RunFold fold{};  // of the last start: what the verdict is a function of
};

// Raises ExitCode::data where the file cannot be read at all.
[[nodiscard]] RankHistory read_ranks(const std::string& path);

}  // namespace trireme::report
