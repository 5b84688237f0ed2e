// SPDX-License-Identifier: Apache-2.0
// The callbacks of Engine::run(). The command `train` writes its reports through one
// (launch/job/train_reports.h); a program overrides the ones it needs.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "launch/engine/memory_plan.h"
#include "runtime/checkpoint/restore/verify.h"
#include "runtime/config/config.h"
#include "runtime/telemetry/bottleneck/rank_log.h"
#include "runtime/telemetry/machine_load.h"
#include "runtime/telemetry/metrics.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/meters/bubble_meter.h"
#include "runtime/train/meters/step_reports.h"
#include "runtime/train/step/step_engine.h"
#include "runtime/train/step_requests.h"

namespace trireme {

// Known before the first step.
struct TrainingStart {
  const Config& config;
  bool again = false;     // run.directory holds an earlier start, which this one continues
  std::int64_t done = 0;  // steps of earlier starts
  std::vector<std::string> hosts{};  // by rank
  RunFacts facts{};                  // for advice
  // Nothing of the training data was read before.
  std::chrono::system_clock::time_point data_opened{};
};

// The sinks of rank 0, which outlive the run; null: no output.
struct RunSinks {
  MetricsSink* metrics = nullptr;
  RankLog* ranks = nullptr;
  bool keep_splits = false;  // for StepReports::splits()
  // For rates: FLOPs of the model per token or image, and peak FLOP/s of all ranks; 0: unknown.
  double flops_per_item = 0, peak_flops = 0;
};

// Results of a run's steps.
struct TrainingEnd {
  const TrainingStart& start;
  std::int64_t done = 0;                   // steps, including earlier starts
  std::optional<ReachedTarget> reached{};  // the last evaluation's, if it passed train.stop_at
  StopReason stopped = StopReason::none;   // none: ran to its end
  double final_loss = 0;                   // of the last step
  double wall_seconds = 0, evaluation_seconds = 0;
  double checkpoint_after_seconds = 0;  // this rank waited for checkpoints after the last step
  MachineLoad load{};                   // of this rank's host
  BytesByRole memory{};                 // of the rank that holds most
  const BubbleMeter& bubble;
  const StepReports& reports;
};

// In call order. "Collective": all ranks make the call at the same place with none of the loop's
// work in flight except as stated, so it may communicate. The other calls must not.
class RunObserver {
 public:
  virtual ~RunObserver() = default;

  // The run had ended earlier but was killed before it wrote its weights: `end` has them. No other
  // call follows. Collective.
  virtual void weights_missing(const FoundCheckpoint& /*end*/) {}
  // On rank 0, right after it takes run.directory; the other ranks wait. Writes the first files, by
  // default config.yaml.
  virtual RunSinks open(const TrainingStart& start);
  // Engine::training() exists; nothing has been computed. Collective.
  virtual void begin() {}
  // A step's report was read; loss and norm are the same on every rank. The next step may be
  // running. Local.
  virtual void read(const StepReport& /*report*/) {}
  // `done` steps were started; the last may still run (StepEngine::settle() waits for it).
  // Collective.
  virtual void after_step(std::int64_t /*done*/) {}
  // Evaluations of train.eval_every or eval_every_samples, and of the last step, equal on every
  // rank. Local.
  virtual void evaluated(std::int64_t /*done*/, const EvaluationResult& /*result*/) {}
  // On rank 0: digests of all tensors, by name (telemetry.tensor_digests).
  virtual void digests(std::int64_t /*done*/, const std::map<std::string, std::string>& /*all*/) {}
  // Before a checkpoint is written; all steps are reported. Collective.
  virtual void saving(std::int64_t /*done*/) {}
  // After the last step of this start. Checkpoints are written or have failed; the error is raised
  // afterwards. Collective.
  virtual void end(const TrainingEnd& /*ending*/) {}
};

}  // namespace trireme
