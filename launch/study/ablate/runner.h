// SPDX-License-Identifier: Apache-2.0
// Runs an ablation: stretches of training (prefixes.h) as jobs, each with its directory and logs
// under DIR/runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/study/ablate/curve.h"
#include "launch/study/ablate/study.h"
#include "launch/study/jobs.h"

namespace trireme::ablate {

enum class CellState : std::uint8_t { not_run, done, stopped, failed };
[[nodiscard]] std::string_view name_of(CellState state);

// A stretch of training that a cell went through.
struct Leg {
  std::int64_t from = 0, to = 0;
  bool shared = false;  // with other variants
  std::string directory{}, log{}, command{};
};

struct Cell {
  std::size_t variant = 0, seed = 0;  // indices of the study's
  CellState state = CellState::not_run;
  std::int64_t steps = 0;   // done
  std::vector<Leg> legs{};  // begun
  int code = 0;             // of the leg that failed
  std::string error{};      // its last words
  Curve curve{};
};

struct AblationResult {
  std::vector<Cell> cells;  // by variant, then by seed
  bool interrupted = false;
  std::int64_t trained_steps = 0;  // in all legs, each once
  double trained_seconds = 0;
  int failed = 0;                        // cells
  std::vector<std::string> decisions{};  // of successive halving, a sentence each
};

// Claims the directory (StudyDirectory) and trains what is missing. A failed leg fails its cells;
// the others continue.
[[nodiscard]] AblationResult run_ablation(const Study& study, const studies::Launcher& launcher,
                                          const studies::RunnerOptions& options);

}  // namespace trireme::ablate
