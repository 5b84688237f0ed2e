// SPDX-License-Identifier: Apache-2.0
// The start point of a run: the state in run.directory, and its match with the config. Read-only,
// except that state in host memory is written to disk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "data/sets/dataset.h"
#include "launch/engine/session.h"
#include "launch/engine/state/best_evaluation.h"
#include "runtime/checkpoint/restore/verify.h"
#include "runtime/config/stop_target.h"

namespace trireme {

struct StartRequest {
  bool fresh = false;      // refuse a directory that holds a run
  bool overwrite = false;  // replace the run that the directory holds
};

// `config` with a number for run.seed: clock: that of the run in run.directory, which resumes, or
// one that rank 0 draws. Does nothing to a config with a number. Collective.
[[nodiscard]] Config with_drawn_seed(const RankProcess& process, Config config,
                                     const StartRequest& request = {});

// The start point of a run.
struct StartingPoint {
  std::optional<FoundCheckpoint> checkpoint{};  // the run continues from it
  // Steps of the final weights, if that is more than the checkpoint's; 0: none.
  std::int64_t finished = 0;
  bool again = false;      // files of an earlier start exist, without state or to be continued
  bool overwrite = false;  // the earlier run is removed first
  // The checkpoint is of the run's end but final weights or averages are missing: the run was
  // killed in between, or the disk was full.
  bool lacks_weights = false;
  // The newest state's evaluation passed train.stop_at.
  std::optional<ReachedTarget> reached{};

  [[nodiscard]] std::int64_t step() const { return checkpoint ? checkpoint->step : 0; }
  // Whether nothing is left to do.
  [[nodiscard]] bool done(std::int64_t steps) const {
    return step() >= steps || finished >= steps || reached;
  }
};

// The newest state counts. Weights of train.steps or more leave nothing to do; else the run
// continues from its newest checkpoint that verifies, or starts from scratch if an earlier start
// left neither checkpoint nor weights. Seed, global batch and data must match the checkpoint; other
// differing keys are logged. With checkpoint.in_memory_every_steps a newer state in host memory is
// first written to disk. Collective; rank 0 reads. Raises ExitCode::checkpoint if no checkpoint is
// good; ExitCode::config for mismatches, for weights of fewer steps without a checkpoint, and if
// `fresh` meets a run. `overwrite` applies only to the first of a job's starts: those after a
// failure or a requeue continue.
[[nodiscard]] StartingPoint find_start(Session& session, const Dataset& dataset,
                                       const StartRequest& request);

// On rank 0, after all other checks: removes what is overwritten, and sets aside weights newer than
// the start point.
void remove_old_run(const Config& config, const StartingPoint& start);

// The part of a checkpoint for these comparisons, as a JSON object: version, data, config, and the
// epoch of the start that wrote it, what passed train.stop_at, and the best evaluation.
[[nodiscard]] std::string state_text(const Config& config, const Dataset& dataset,
                                     std::int64_t epoch,
                                     const std::optional<ReachedTarget>& reached,
                                     const BestEvaluation& best = {});
[[nodiscard]] std::optional<ReachedTarget> reached_in(const FoundCheckpoint& checkpoint);

}  // namespace trireme
