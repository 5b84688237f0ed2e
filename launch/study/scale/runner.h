// SPDX-License-Identifier: Apache-2.0
// Runs a scaling study: every point's runs as jobs, each with its directory under DIR/runs.
#pragma once

#include <optional>
#include <vector>

#include "launch/study/jobs.h"
#include "launch/study/scale/result.h"
#include "launch/study/scale/study.h"

namespace trireme::scale {

// The runs of one point, in order; empty: not reached.
struct PointResult {
  Point point;
  std::vector<std::optional<RunResult>> runs;
};

struct SweepResult {
  std::vector<PointResult> points;
  bool interrupted = false;
  int failed = 0;  // runs
};

// Claims the directory (StudyDirectory) and measures what is missing. Records a failed run and
// continues with the others.
[[nodiscard]] SweepResult run_study(const Study& study, const studies::Launcher& launcher,
                                    const studies::RunnerOptions& options);

}  // namespace trireme::scale
