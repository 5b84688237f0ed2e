// SPDX-License-Identifier: Apache-2.0
// How a run begins: what run.directory holds of earlier starts, and what must agree before a run
// goes on from it. Nothing here writes but a state that
// was held in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "data/sets/dataset.h"
#include "launch/engine/session.h"
#include "runtime/checkpoint/restore/verify.h"

namespace trireme {

struct StartRequest {
  bool fresh = false;      // refuse a directory that holds a run
  bool overwrite = false;  // replace the run that the directory holds
};

// Where a run begins.
struct StartingPoint {
  std::optional<FoundCheckpoint> checkpoint{};  // it goes on from this one
  // The steps of the weights that the run has ended with, where that is more than the checkpoint's;
  // 0: none.
  std::int64_t finished = 0;
  bool again = false;      // files of an earlier start are there, and no state, or they go on
  bool overwrite = false;  // the earlier run is removed first
  // The checkpoint is of the run's end, whose weights or averages are not there: it was killed in
  // between, or the disk had no room for them.
  bool lacks_weights = false;

  [[nodiscard]] std::int64_t step() const { return checkpoint ? checkpoint->step : 0; }
  // Whether nothing is left to do.
  [[nodiscard]] bool done(std::int64_t steps) const { return step() >= steps || finished >= steps; }
};

// The newest state counts: weights of train.steps or more leave nothing to do; else the run goes on
// from its newest checkpoint that verifies, from the beginning where an earlier start has left
// neither checkpoint nor weights. Seed, global batch and data must be those of the checkpoint;
// other keys that differ are logged. With checkpoint.in_memory_every_steps the state in the memory
// of the hosts is brought to the disk first where it is newer. Collective; rank 0 looks. Raises
// ExitCode::checkpoint for checkpoints none of which is good, ExitCode::config for what does not
// fit, for weights of fewer steps without a checkpoint to go on from, and where `fresh` meets a
// run. `overwrite` counts for the first of a job's starts only: those after a failure or a requeue
// go on.
[[nodiscard]] StartingPoint find_start(Session& session, const Dataset& dataset,
                                       const StartRequest& request);

// On rank 0, once everything else has been checked: removes what is overwritten, and sets weights
// aside that the run goes back behind.
void clear_the_way(const Config& config, const StartingPoint& start);

// What a checkpoint keeps for the comparisons above, as a JSON object: version, data, config, and
// the epoch of the start that wrote it.
[[nodiscard]] std::string state_text(const Config& config, const Dataset& dataset,
                                     std::int64_t epoch);

}  // namespace trireme
