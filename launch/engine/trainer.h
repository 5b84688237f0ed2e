// SPDX-License-Identifier: Apache-2.0
// The loop of Engine::run(): steps, reports, evaluations, guards, checkpoints. Reads and reports
// each step while the next one computes.
#pragma once

#include <optional>

#include "launch/engine/engine.h"
#include "launch/engine/run_observer.h"
#include "runtime/train/trace/step_tracer.h"

namespace trireme {

class Trainer {
 public:
  // Uses the parts that Engine::begin() made, and `requests` as its flags. All must outlive it.
  // Collective.
  Trainer(Engine& engine, RunObserver& observer, StepRequests& requests, const TrainingStart& start,
          const RunSinks& sinks);

  // Raises ExitCode::non_finite and ExitCode::communication on all ranks.
  void run();
  // On rank 0: rewrites start_times.json if a save took longer than earlier ones.
  void keep_times();
  // Without values known only at the end of the run. Refers to this.
  [[nodiscard]] TrainingEnd ending() const;

 private:
  void loop();
  void write_trace_of_end() noexcept;
  void run(std::int64_t step);
  // Work due between two steps. Returns false to stop here.
  bool between_steps(std::int64_t done);
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
  void test_ranks(std::int64_t done);
  void digest_tensors(std::int64_t done);
  void save(std::int64_t done, SaveTo to);
  void evaluate(std::int64_t done);
  void write_evaluation(std::int64_t done, const EvaluationResult& result, double seconds);
  void judge_target(std::int64_t done, const EvaluationResult& result);
  void judge_best(std::int64_t done, const EvaluationResult& result);
  // Training ends with this step.
  void end_at(std::int64_t done, const ReachedTarget& reached);
  [[nodiscard]] bool compares_replicas(std::int64_t done) const;

  Engine& engine_;
  const Config& config_;
  TrainingParts& parts_;
  TrainingState& state_;
  StepEngine& steps_;
  RunObserver& observer_;
  StepRequests& requests_;
  const TrainingStart& start_;
  RunSinks sinks_;
  bool leader_;
  std::optional<StepTracer> tracer_;
  BubbleMeter bubble_;
  StepReports reports_;
  std::int64_t reported_;        // steps before it are reported
  std::int64_t non_finite_ = 0;  // over the run
  bool best_is_new_ = false;     // the last evaluation's state is to be saved
  std::int64_t in_a_row_ = 0;    // consecutive steps, up to now
  StopReason stopped_ = StopReason::none;
  double final_loss_ = 0, evaluation_seconds_ = 0, checkpoint_after_seconds_ = 0, wall_seconds_ = 0;
};

}  // namespace trireme
