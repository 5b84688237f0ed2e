// SPDX-License-Identifier: Apache-2.0
// Who follows a run of Engine::run(). The command `train` writes its reports through one
// (launch/job/train_reports.h); a program overrides what it cares for.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "launch/engine/memory_plan.h"
#include "runtime/checkpoint/restore/verify.h"
#include "runtime/config/config.h"
#include "runtime/telemetry/machine_load.h"
#include "runtime/telemetry/metrics.h"
#include "runtime/telemetry/verdict/rank_log.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/meters/bubble_meter.h"
#include "runtime/train/meters/step_reports.h"
#include "runtime/train/step/step_engine.h"
#include "runtime/train/step_requests.h"

namespace trireme {

// What is known before the first step.
struct TrainingStart {
  const Config& config;
  bool again = false;     // run.directory holds an earlier start of this run, which goes on
  std::int64_t done = 0;  // steps of earlier starts
  std::vector<std::string> hosts{};  // by rank
  RunFacts facts{};                  // for advice
};

// Where rank 0 reports to. All outlive the run; null: nowhere.
struct RunSinks {
  MetricsSink* metrics = nullptr;
  RankLog* ranks = nullptr;
  bool keep_splits = false;  // for StepReports::splits()
  // For rates: of the model by token or image, and what all ranks could do in a second; 0: not
  // known.
  double flops_per_item = 0, peak_flops = 0;
};

// What the steps of a run have come to.
struct TrainingEnd {
  const TrainingStart& start;
  StopReason stopped = StopReason::none;  // none: after the last step
  double final_loss = 0;                  // of the last step
  double wall_seconds = 0, evaluation_seconds = 0;
  double checkpoint_after_seconds = 0;  // this rank stood still for checkpoints after the last step
  MachineLoad load{};                   // of this rank's host
  BytesByRole memory{};                 // of the rank that holds most
  const BubbleMeter& bubble;
  const StepReports& reports;
};

// In the order of the calls. "Collective": all ranks call it at the same place, with nothing of the
// loop's in flight but what is said, so it may communicate. The others must not.
class RunObserver {
 public:
  virtual ~RunObserver() = default;

  // The run has ended earlier, and was killed before its weights were written: `end` has them. No
  // other call follows. Collective.
  virtual void weights_missing(const FoundCheckpoint& /*end*/) {}
  // On rank 0, which has just taken run.directory; the other ranks wait. Puts there what should be
  // seen first, by default config.yaml.
  virtual RunSinks open(const TrainingStart& start);
  // Engine::training() is there, nothing has been computed. Collective.
  virtual void begin() {}
  // A step was read, with the same loss and norm on every rank; the next one may be under way.
  // Local.
  virtual void read(const StepReport& /*report*/) {}
  // `done` steps were started, the last of which may be under way (StepEngine::settle() waits for
  // it). Collective.
  virtual void after_step(std::int64_t /*done*/) {}
  // Those of train.eval_every and of the last step, with the same values on every rank. Local.
  virtual void evaluated(std::int64_t /*done*/, const EvaluationResult& /*result*/) {}
  // On rank 0: digests of all tensors, by name (telemetry.tensor_digests).
  virtual void digests(std::int64_t /*done*/, const std::map<std::string, std::string>& /*all*/) {}
  // Before a checkpoint is written, with all steps reported. Collective.
  virtual void saving(std::int64_t /*done*/) {}
  // After the last step, or the one that the run stops after. Checkpoints are written, or have
  // failed, which is raised afterwards. Collective.
  virtual void end(const TrainingEnd& /*ending*/) {}
};

}  // namespace trireme
