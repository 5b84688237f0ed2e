// SPDX-License-Identifier: Apache-2.0
// The loop: steps, reports, evaluations, guards. Everything it works with is handed in.
#pragma once

#include <functional>

#include "runtime/telemetry/console.h"
#include "runtime/telemetry/metrics.h"
#include "runtime/train/bubble_meter.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/step_engine.h"

namespace trireme {

struct TrainerOptions {
  std::int64_t steps = 0;
  std::int64_t eval_every = 0;        // 0 = only after the last step
  std::int64_t non_finite_limit = 1;  // consecutive non-finite steps that end the run
  bool classifier = false;            // evaluations report accuracy
};

class Trainer {
 public:
  // Where reports go. Rank 0 has a console and a log, other ranks none (null).
  struct Reporting {
    Console* console = nullptr;
    MetricsLog* metrics = nullptr;
    BubbleMeter* bubble = nullptr;  // every rank of a pipeline
  };
  // Runs one evaluation of the current weights; collective. Empty when there is no validation data.
  using Evaluate = std::function<EvaluationResult()>;
  Trainer(StepEngine& engine, BatchSource& source, const TrainerOptions& options,
          Reporting reporting, Evaluate evaluate);

  // Returns the last evaluation, if there was one. Raises ExitCode::non_finite on every rank alike.
  EvaluationResult run();
  // Of the last step.
  [[nodiscard]] double final_loss() const { return final_loss_; }
  [[nodiscard]] double evaluation_seconds() const { return evaluation_seconds_; }
  [[nodiscard]] double wall_seconds() const { return wall_seconds_; }

 private:
  void report(std::int64_t step);
  void guard(const StepReport& report);
  EvaluationResult run_evaluation(std::int64_t step);

  StepEngine& engine_;
  BatchSource& source_;
  TrainerOptions options_;
  Reporting reporting_;
  Evaluate evaluate_;
  std::int64_t non_finite_ = 0;
  double final_loss_ = 0, evaluation_seconds_ = 0, wall_seconds_ = 0;
};

}  // namespace trireme
