// SPDX-License-Identifier: Apache-2.0
// Runs a study: every point's runs as jobs of a launcher, each with its directory and log under
// DIR/runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/study/scale/launcher.h"
#include "launch/study/scale/result.h"
#include "launch/study/scale/study.h"

namespace trireme::scale {

struct RunnerOptions {
  std::string directory;
  bool resume = false;  // what is there counts, if it is of this study
  int jobs = 1;         // that may run, or wait in a queue, at once
};

// The runs of one point, in order; empty where one was not reached.
struct PointResult {
  Point point;
  std::vector<std::optional<RunResult>> runs;
};

struct SweepResult {
  std::vector<PointResult> points;
  bool interrupted = false;
  int failed = 0;  // runs
};

// Claims the directory: raises ExitCode::config where it holds a study that is not to be resumed,
// or another one. A run that fails is recorded and the sweep goes on. SIGINT and SIGTERM end the
// jobs that run and the sweep; the caller holds them (stop_signals in process.h).
[[nodiscard]] SweepResult run_study(const Study& study, const Launcher& launcher,
                                    const RunnerOptions& options);

// For the scripts that jobs go through: this program, and how long a run that is stopped gets. What
// is set already is kept.
void set_study_environment(const char* grace_seconds);

}  // namespace trireme::scale
