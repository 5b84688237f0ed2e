// SPDX-License-Identifier: Apache-2.0
// The results of a training step for this rank, and what measures steps or follows their weights
// without changing them: a list in StepOptions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/telemetry/expert_load.h"
#include "runtime/train/meters/time_split.h"
#include "runtime/train/step/loss_guard.h"
#include "runtime/train/step/step_flags.h"

namespace trireme {

class GradientProbe;

// A measurement of NoiseMeter.
struct NoiseReading {
  double scale = 0;   // trace / square, in samples: larger batches gain less
  double trace = 0;   // of this step alone
  double square = 0;  // of this step alone
};

struct StepReport {
  std::int64_t step = 0;
  double loss = 0;           // mean over the counted targets of the global batch
  std::int64_t targets = 0;  // number of counted ones
  double grad_norm = 0;      // before clipping
  double learning_rate = 0;
  // If the loss is scaled: the scale of this step, and the steps skipped up to and with it.
  std::optional<double> loss_scale{};
  std::int64_t skipped_steps = 0;
  // Skipped because gradients overflowed under a scale that can still fall.
  bool overflowed = false;
  LossJudgement judgement{};
  std::optional<NoiseReading> noise{};  // in steps that measure it
  StepFlags flags{};                    // maximum over all ranks
  // This rank's part of the digest of the weights after the update, if they are digested.
  std::optional<std::uint64_t> weight_digest{};
  std::vector<ExpertLoad> loads{};  // in steps that read them
  RankStep own{};                   // this step's times
  // The times of step `timed` (below 0: none) on all ranks; valid until a later step is read.
  std::int64_t timed = -1;
  std::span<const RankStep> by_rank{};
};

class StepMeter {
 public:
  virtual ~StepMeter() = default;

  // Called while step `step` (from 0) is enqueued, in this order. Before its passes:
  virtual void begin(std::int64_t /*step*/, Stream& /*compute*/) {}
  // Sees the gradients of its single micro-batches; null: none.
  [[nodiscard]] virtual GradientProbe* probe(std::int64_t /*step*/) { return nullptr; }
  // After its passes, before its losses and last gradients are sent.
  virtual void reducing(std::int64_t /*step*/, Stream& /*comm*/) {}
  // `comm` has the reduced gradients, with those of tied copies added.
  virtual void reduced(std::int64_t /*step*/, Stream& /*comm*/) {}
  // After the update of this rank's slices, before they are sent.
  virtual void updated(std::int64_t /*step*/, Stream& /*compute*/, Stream& /*comm*/) {}
  // Whether updated() enqueues the same in every step. If not, steps are recorded without it and it
  // follows them.
  [[nodiscard]] virtual bool recordable() const { return true; }

  // Adds to the report of a step whose work is done. At most one later step is enqueued.
  virtual void read(StepReport& /*report*/) {}
};

}  // namespace trireme
