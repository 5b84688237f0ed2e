// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/trainer.h"

#include <chrono>
#include <cmath>

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

Trainer::Trainer(StepEngine& engine, BatchSource& source, const TrainerOptions& options,
                 Reporting reporting, Evaluate evaluate)
    : engine_(engine),
      source_(source),
      options_(options),
      reporting_(reporting),
      evaluate_(std::move(evaluate)) {}

EvaluationResult Trainer::run() {
  const auto start = Clock::now();
  EvaluationResult last;
  std::int64_t reported = 0;
  for (std::int64_t step = 0; step < options_.steps; ++step) {
    engine_.run(step, source_);
    const bool final_step = step + 1 == options_.steps;
    const bool evaluate_now =
        evaluate_ &&
        (final_step || (options_.eval_every > 0 && (step + 1) % options_.eval_every == 0));
    // A step is reported while the next one runs, unless the run stops or looks at the weights
    // here.
    const std::int64_t report_up_to = final_step || evaluate_now ? step + 1 : step;
    for (; reported < report_up_to; ++reported)
      report(reported);
    if (evaluate_now) last = run_evaluation(step);
  }
  wall_seconds_ = seconds_since(start);
  return last;
}

void Trainer::report(std::int64_t step) {
  const StepReport report = engine_.read(step);
  final_loss_ = report.loss;
  if (reporting_.bubble != nullptr) reporting_.bubble->add(step);
  if (reporting_.console != nullptr) {
    const StepMetrics metrics{.step = step + 1,
                              .loss = report.loss,
                              .learning_rate = report.learning_rate,
                              .grad_norm = report.grad_norm,
                              .items = engine_.targets_per_step(),
                              .step_ms = report.step_ms,
                              .forward_ms = report.forward_ms,
                              .backward_ms = report.backward_ms,
                              .optimizer_ms = report.optimizer_ms,
                              .data_wait_ms = report.data_wait_ms,
                              .exposed_comm_ms = report.exposed_comm_ms,
                              .bubble_ms = report.bubble_ms,
                              .reduce_ms = report.reduce_ms,
                              .loss_scale = report.loss_scale,
                              .skipped_steps = report.skipped_steps,
                              .overflowed = report.overflowed};
    reporting_.metrics->step(metrics);
    reporting_.console->step(metrics);
  }
  guard(report);
}

void Trainer::guard(const StepReport& report) {
  if (report.overflowed) return;  // the smaller loss scale of the next step will tell
  if (std::isfinite(report.loss) && std::isfinite(report.grad_norm)) {
    non_finite_ = 0;
    return;
  }
  if (++non_finite_ < options_.non_finite_limit) return;
  fail(ExitCode::non_finite,
       "step {}: the loss is {} and the gradient norm {}, for {} step(s) in a row "
       "(train.non_finite_limit = {}); "
       "lower optimizer.learning_rate, lengthen lr_schedule.warmup_steps or lower train.clip_norm",
       report.step + 1, report.loss, report.grad_norm, non_finite_, options_.non_finite_limit);
}

EvaluationResult Trainer::run_evaluation(std::int64_t step) {
  const auto start = Clock::now();
  const EvaluationResult result = evaluate_();
  const double seconds = seconds_since(start);
  evaluation_seconds_ += seconds;
  if (reporting_.console != nullptr) {
    EvaluationMetrics metrics{.step = step + 1,
                              .validation_loss = result.loss,
                              .accuracy = {},
                              .evaluation_ms = 1e3 * seconds};
    if (options_.classifier) metrics.accuracy = result.accuracy;
    reporting_.metrics->evaluation(metrics);
    reporting_.console->evaluation(metrics);
  }
  return result;
}

}  // namespace trireme
