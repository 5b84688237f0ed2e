// SPDX-License-Identifier: Apache-2.0
// Everything in a run directory about a run, in any state.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/observe/report/metrics_history.h"
#include "launch/observe/report/model_figures.h"
#include "launch/observe/report/rank_history.h"
#include "launch/run/run_files.h"
#include "launch/run/run_standing.h"
#include "runtime/base/error.h"

namespace trireme::report {

struct RunData {
  std::string directory{}, name{};
  MetricsHistory metrics{};
  RankHistory ranks{};
  std::string config{}, environment{};  // the files' content; empty: missing
  std::int64_t planned_steps = 0;       // train.steps; 0: unknown
  runs::EnvironmentFile start{};
  std::string family{}, device{};
  std::vector<std::string> hosts{};  // by rank, of the last start
  RunFacts facts{};
  std::vector<std::pair<std::string, std::string>> settings{};  // key, value; empty: unknown
  ModelFigures figures{};
  std::vector<runs::StoredCheckpoint> checkpoints{};  // by step
  runs::RunStanding standing{};
  double file_age_seconds = 0;  // since metrics.jsonl was last written
  // Missing or broken parts, a sentence each, for the report's reader.
  std::vector<std::string> remarks{};
  bool has_metrics = false;
};

// Raises ExitCode::config if `directory` does not exist or cannot be read, and ExitCode::data if it
// contains nothing of a run.
[[nodiscard]] RunData read_run(const std::string& directory);
// The runs at each place (runs::runs_at), with distinguishing names. `unread` gets one error that
// lists all unreadable ones, with the code of the first; it is raised if nothing else is left.
[[nodiscard]] std::vector<RunData> read_runs(std::span<const std::string> places,
                                             std::optional<Error>& unread);

// For the bottleneck analysis: over all steps in the metrics.
[[nodiscard]] RunSummary summary_of(const RunData& run);
// The same from the ranks' own times, if they are known, with the stops between starts.
[[nodiscard]] RunSummary times_of(const RunData& run);

}  // namespace trireme::report
