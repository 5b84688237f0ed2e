// SPDX-License-Identifier: Apache-2.0
// A training run's checkpoints: what they keep, and who may write when.
#pragma once

#include <optional>
#include <string>

#include "data/sets/dataset.h"
#include "launch/engine/state/starting_point.h"
#include "launch/engine/training_state.h"
#include "runtime/checkpoint/save/saver.h"
#include "runtime/telemetry/metrics.h"
#include "runtime/telemetry/run_owner.h"

namespace trireme {

// Beside those of ExitCode: checkpoints could not be written. Nothing that a library raises.
inline constexpr ExitCode unsaved_exit{7};

// Whether the config has checkpoints written, and with them a copy of the state held in memory.
[[nodiscard]] bool writes_checkpoints(const CheckpointConfig& config);

class Checkpointing {
 public:
  // Restores what `start` has and allocates what checkpoints need; writes nothing. Collective. All
  // references must outlive it.
  Checkpointing(Session& session, const TrainingState& state, const Dataset& dataset,
                const StartingPoint& start, const RunOwner& owner);

  // Once rank 0 has taken the run directory: what is wrong with its directory of checkpoints shows
  // now, not at the first save. Failed saves are told to `metrics`, which must outlive this; null
  // on other ranks. Collective.
  void open(MetricsSink* metrics);
  // Starts a checkpoint of the state after `done` steps. Collective.
  void save(std::int64_t done, SaveTo to = SaveTo::disk);
  // Logs a save that has ended since the last call; raises unsaved_exit at the
  // checkpoint.failed_limit-th failure in a row, but not once save() had the state after the last
  // step: what the run has computed is still to be written, and require_saved() comes after that.
  void report();
  // Waits for what is being written.
  void finish();
  // Of the saves that report() has seen, from their start to their commit; 0 where there are none.
  [[nodiscard]] double longest_save_seconds() const { return longest_save_seconds_; }
  // After finish(), of a run that leaves its last state on the disk: frees the memory of the hosts.
  void forget_memory() noexcept;
  // Raises unsaved_exit where the last save failed, after finish().
  void require_saved() const;

 private:
  [[nodiscard]] CheckpointSaver& saver();
  void make_saver();
  void note_copy(const SaveReport& report) const;
  void note_failure(const SaveReport& report);

  Session& session_;
  const TrainingState& state_;
  const Dataset& dataset_;
  const RunOwner& owner_;
  std::int64_t epoch_ = 0;
  double longest_save_seconds_ = 0;
  std::optional<std::int64_t> restored_;
  MetricsSink* metrics_ = nullptr;
  bool trained_ = false;                  // a save of the state after the last step was begun
  std::int64_t failed_ = 0;               // in a row
  std::string problem_;                   // of the last that failed
  std::optional<CheckpointSaver> saver_;  // from the first save on: it holds a copy of the state
};

}  // namespace trireme
