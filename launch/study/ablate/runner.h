// SPDX-License-Identifier: Apache-2.0
// Runs an ablation: stretches of training (prefixes.h) as jobs of a launcher, each with its
// directory and logs under DIR/runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/study/ablate/curve.h"
#include "launch/study/ablate/study.h"
#include "launch/study/scale/launcher.h"

namespace trireme::ablate {

struct RunnerOptions {
  std::string directory;
  bool resume = false;  // what is there counts, if it is of this study
  int jobs = 1;         // that may run, or wait in a queue, at once
  bool array = false;   // all stretches that can begin as one Slurm array, with the launcher sbatch
};

enum class CellState : std::uint8_t { not_run, done, stopped, failed };
[[nodiscard]] std::string_view name_of(CellState state);

// A stretch on the way of a cell.
struct Leg {
  std::int64_t from = 0, to = 0;
  bool shared = false;  // with other variants
  std::string directory{}, log{}, command{};
};

struct Cell {
  std::size_t variant = 0, seed = 0;  // indices of the study's
  CellState state = CellState::not_run;
  std::int64_t steps = 0;   // that are done
  std::vector<Leg> legs{};  // that were begun
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

// Claims the directory (StudyDirectory) and trains what is not there yet. A leg that fails fails
// its cells, and the others go on. SIGINT and SIGTERM end the jobs that run; the caller has them
// blocked (stop_signals).
[[nodiscard]] AblationResult run_ablation(const Study& study, const scale::Launcher& launcher,
                                          const RunnerOptions& options);

}  // namespace trireme::ablate
