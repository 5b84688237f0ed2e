// SPDX-License-Identifier: Apache-2.0
// All that a run directory tells about a run, whatever state it is in.
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
  std::string config{}, environment{};  // the files as they are; empty: not there
  std::int64_t planned_steps = 0;       // train.steps; 0: not known
  runs::EnvironmentFile start{};
  std::string family{}, device{};
  std::vector<std::string> hosts{};  // by rank, of the last start
  RunFacts facts{};
  std::vector<std::pair<std::string, std::string>> settings{};  // key, value; empty: not known
  ModelFigures figures{};
  std::vector<runs::StoredCheckpoint> checkpoints{};  // by step
  runs::RunStanding standing{};
  double file_age_seconds = 0;  // since metrics.jsonl was last written
  // What is missing or broken, a sentence each, for the reader of the report.
  std::vector<std::string> remarks{};
  bool has_metrics = false;
};

// Raises ExitCode::config where `directory` is none or cannot be looked into, and ExitCode::data
// where nothing in it is of a run.
[[nodiscard]] RunData read_run(const std::string& directory);
// Of each place the runs that are there (runs::runs_at), with names that tell them apart. What
// cannot be read is in `unread`: one error that names all, with the code of the first; it is raised
// where there is nothing else.
[[nodiscard]] std::vector<RunData> read_runs(std::span<const std::string> places,
                                             std::optional<Error>& unread);

// For the verdict: of all steps that the metrics have.
[[nodiscard]] RunSummary summary_of(const RunData& run);
// The same of the last start by its ranks' own times, where these are known.
[[nodiscard]] RunSummary times_of(const RunData& run);

}  // namespace trireme::report
