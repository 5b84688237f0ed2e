// SPDX-License-Identifier: Apache-2.0
// A training run's checkpoints: their content and their times.
#pragma once

#include <optional>
#include <string>

#include "data/sets/dataset.h"
#include "launch/engine/state/best_evaluation.h"
#include "launch/engine/state/starting_point.h"
#include "launch/engine/training_state.h"
#include "runtime/checkpoint/save/saver.h"
#include "runtime/telemetry/metrics.h"
#include "runtime/telemetry/run_owner.h"

namespace trireme {

// Not in ExitCode, because no library raises it: checkpoints could not be written.
inline constexpr ExitCode unsaved_exit{7};

// Whether the config has checkpoints, and so a copy of the state in memory.
[[nodiscard]] bool writes_checkpoints(const CheckpointConfig& config);

class Checkpointing {
 public:
  // Restores the checkpoint of `start` and allocates checkpoint memory; writes nothing. Collective.
  // All references must outlive it.
  Checkpointing(Session& session, const TrainingState& state, const Dataset& dataset,
                const StartingPoint& start, const RunOwner& owner);

  // Call it once rank 0 has taken the run directory: problems with the checkpoint directory show
  // now, not at the first save. Failed saves go to `metrics`, which must outlive this; null on
  // other ranks. Collective.
  void open(MetricsSink* metrics);
  // The state that is saved from here on passed train.stop_at: the run ends with it.
  void note_reached(const ReachedTarget& reached) { reached_ = reached; }
  // What the state that is saved from here on knows of evaluations.
  void note_best(const BestEvaluation& best);
  [[nodiscard]] const BestEvaluation& best() const { return best_; }
  // Starts a checkpoint of the state after `done` steps. Collective.
  void save(std::int64_t done, SaveTo to = SaveTo::disk);
  // Logs a save that has ended since the last call. Raises unsaved_exit at the
  // checkpoint.failed_limit-th consecutive failure, but not after save() of the last step: results
  // are written first, then require_saved() raises.
  void report();
  // Waits for a running write.
  void finish();
  // The longest of the saves that report() has seen, from start to commit; 0 if none.
  [[nodiscard]] double longest_save_seconds() const { return longest_save_seconds_; }
  // Frees the memory of the hosts, after finish() of a run that leaves its last state on disk.
  void forget_memory() noexcept;
  // After finish(): raises unsaved_exit if the last save failed.
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
  std::optional<ReachedTarget> reached_;
  BestEvaluation best_;
  bool trained_ = false;                  // a save of the last step's state has begun
  std::int64_t failed_ = 0;               // failures in a row
  std::string problem_;                   // of the last failure
  std::optional<CheckpointSaver> saver_;  // from the first save on: it holds a copy of the state
};

}  // namespace trireme
