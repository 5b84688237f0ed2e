// SPDX-License-Identifier: Apache-2.0
// The loop: steps, reports, evaluations, guards, checkpoints. Everything it works with is handed
// in.
#pragma once

#include <functional>

#include "runtime/telemetry/metrics.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/meters/bubble_meter.h"
#include "runtime/train/meters/step_reports.h"
#include "runtime/train/replica_check.h"
#include "runtime/train/step/step_engine.h"
#include "runtime/train/step_requests.h"
#include "runtime/train/trace/step_tracer.h"

namespace trireme {

struct TrainerOptions {
  std::int64_t steps = 0;
  std::int64_t first_step = 0;              // steps that an earlier run has done
  std::int64_t eval_every = 0;              // 0 = only after the last step
  std::int64_t non_finite_limit = 1;        // consecutive non-finite steps that end the run
  std::int64_t divergence_check_every = 0;  // steps between comparisons of replicas; 0 = none
  bool classifier = false;                  // evaluations report accuracy
  // Passes over the data after so many steps; may be empty.
  std::function<double(std::int64_t done)> epochs{};
  bool digest_every_step = false;  // Services::digest is called behind every step
  RunFacts facts{};                // for advice
  // For rates: of the model by token or image, and what all ranks could do in a second; 0 = not
  // known.
  double flops_per_item = 0, peak_flops = 0;
};

class Trainer {
 public:
  // Where reports go.
  struct Reporting {
    StepReports* steps = nullptr;    // every rank
    MetricsSink* metrics = nullptr;  // rank 0
    BubbleMeter* bubble = nullptr;   // every rank of a pipeline
  };
  // What the loop calls where a run has it; all of it may be empty or null.
  struct Services {
    // Runs one evaluation of the current weights; collective. Empty when there is no validation
    // data.
    std::function<EvaluationResult()> evaluate{};
    // Starts a checkpoint of the state after so many steps; collective. StepOptions::flags then
    // asks `requests`.
    std::function<void(std::int64_t done)> save{};
    // Starts a copy of it in the memory of the hosts; collective.
    std::function<void(std::int64_t done)> copy{};
    // Tests the ranks before the first step and whenever `requests` say so; collective.
    std::function<void(std::int64_t done)> self_test{};
    // Writes down the digest of every tensor after so many steps, before a checkpoint of them; the
    // weights are final. Collective.
    std::function<void(std::int64_t done)> digest{};
    // Looks at the state after so many steps, the last of which may be under way; collective.
    std::function<void(std::int64_t done)> look{};
    // After every step but the last; not collective.
    std::function<void()> after_step{};
    StepRequests* requests = nullptr;
    ReplicaCheck* replicas = nullptr;
    StepTracer* tracer = nullptr;
    // The samples of a step's global batch (steps count from 0), for the log.
    std::function<std::vector<std::int64_t>(std::int64_t step)> samples{};
  };
  Trainer(StepEngine& engine, BatchSource& source, const TrainerOptions& options,
          Reporting reporting, Services services);

  // Raises ExitCode::non_finite on every rank alike.
  void run();
  // Why the run ended before its last step, after a checkpoint.
  [[nodiscard]] StopReason stopped() const { return stopped_; }
  // Of the last step.
  [[nodiscard]] double final_loss() const { return final_loss_; }
  [[nodiscard]] double evaluation_seconds() const { return evaluation_seconds_; }
  // This rank stood still for checkpoints behind the last step.
  [[nodiscard]] double checkpoint_after_seconds() const { return checkpoint_after_seconds_; }
  [[nodiscard]] double wall_seconds() const { return wall_seconds_; }

 private:
  void loop();
  void write_trace_of_end() noexcept;
  void run(std::int64_t step);
  // Reads the steps before `end`; settle_reports() also writes all of them, and is collective.
  void report_up_to(std::int64_t end);
  void settle_reports(std::int64_t end);
  void report(std::int64_t step);
  void guard(const StepReport& report);
  void pass_on(const StepReport& report);
  [[nodiscard]] StepMetrics metrics_of(const StepReport& report) const;
  [[nodiscard]] SkippedBatch spike(const StepReport& report);
  void check_replicas(std::int64_t done);
  void compare_replicas(std::int64_t done);
  void digest_tensors(std::int64_t done);
  void save(std::int64_t done, const std::function<void(std::int64_t)>& how);
  void run_evaluation(std::int64_t step);

  StepEngine& engine_;
  BatchSource& source_;
  TrainerOptions options_;
  Reporting reporting_;
  Services services_;
  std::int64_t reported_ = 0;    // steps before it are
  std::int64_t non_finite_ = 0;  // of the run
  std::int64_t in_a_row_ = 0;    // of the last steps
  StopReason stopped_ = StopReason::none;
  double final_loss_ = 0, evaluation_seconds_ = 0, checkpoint_after_seconds_ = 0, wall_seconds_ = 0;
};

}  // namespace trireme
