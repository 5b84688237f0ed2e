// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/trainer.h"

#include <chrono>
#include <cmath>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/test_delay.h"
#include "runtime/base/test_rests.h"
#include "runtime/comm/watchdog/step_watch.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

Trainer::Trainer(StepEngine& engine, BatchSource& source, const TrainerOptions& options,
                 Reporting reporting, Services services)
    : engine_(engine),
      source_(source),
      options_(options),
      reporting_(reporting),
      services_(std::move(services)),
      reported_(options.first_step) {}

void Trainer::run() {
  const StepWatch watch;
  if (services_.self_test) services_.self_test(options_.first_step);
  const auto start = Clock::now();
  try {
    loop();
  } catch (const Error& error) {
    if (reporting_.steps != nullptr) reporting_.steps->abandon();
    // All ranks alike end so, and with every stream in order: what has been traced shows how it
    // came.
    if (error.code() == ExitCode::non_finite && services_.tracer != nullptr) write_trace_of_end();
    throw;
  } catch (...) {
    if (reporting_.steps != nullptr) reporting_.steps->abandon();
    throw;
  }
  wall_seconds_ = seconds_since(start);
}

void Trainer::write_trace_of_end() noexcept {
  try {
    services_.tracer->write();
  } catch (const std::exception& error) {  // the run's own error is on its way
    log::get("trace").warn("{}", error.what());
  }
}

void Trainer::loop() {
  // Ranks that start from other weights show themselves in the first step.
  if (services_.replicas != nullptr) compare_replicas(options_.first_step);
  for (std::int64_t step = options_.first_step; step < options_.steps; ++step) {
    run(step);
    checkpoint_after_seconds_ = 0;
    const std::int64_t done = step + 1;
    const bool final_step = done == options_.steps;
    const bool evaluate_now =
        services_.evaluate &&
        (final_step || (options_.eval_every > 0 && done % options_.eval_every == 0));
    // A step is reported while the next one runs, unless the run stops or looks at the weights
    // here.
    if (final_step || evaluate_now || options_.digest_every_step) {
      settle_reports(done);
    } else {
      report_up_to(step);
    }
    if (services_.tracer != nullptr) services_.tracer->write_after(reported_);
    check_replicas(done);
    if (options_.digest_every_step) digest_tensors(done);
    if (services_.look && !test_rests(step)) services_.look(done);
    if (evaluate_now) run_evaluation(step);
    if (services_.after_step && !final_step) services_.after_step();
    if (services_.requests == nullptr) continue;
    const StepDecision decision = services_.requests->take(done);
    // A checkpoint of a rank that computes wrong is worth nothing.
    if (decision.self_test && services_.self_test) services_.self_test(done);
    if (decision.checkpoint) {
      settle_reports(done);
      if (!options_.digest_every_step) digest_tensors(done);
      save(done, services_.save);
      services_.requests->saved();
    }
    // The last state goes to the disk.
    if (decision.memory_copy && !final_step) save(done, services_.copy);
    if (decision.stop == StopReason::none || final_step) continue;
    stopped_ = decision.stop;
    settle_reports(done);
    break;
  }
  if (services_.replicas != nullptr) services_.replicas->finish();
  if (services_.tracer != nullptr) services_.tracer->write();
}

void Trainer::run(std::int64_t step) {
  test_step_begins(step);
  if (services_.tracer != nullptr) services_.tracer->begin_step(step);
  engine_.run(step, source_);
  if (services_.tracer != nullptr) services_.tracer->end_step(step);
}

void Trainer::report_up_to(std::int64_t end) {
  for (; reported_ < end; ++reported_)
    report(reported_);
}

void Trainer::settle_reports(std::int64_t end) {
  report_up_to(end);
  if (reporting_.steps != nullptr) reporting_.steps->finish();
}

// A comparison is judged after the next step is on its way, or before the weights are saved.
void Trainer::check_replicas(std::int64_t done) {
  if (services_.replicas == nullptr) return;
  services_.replicas->finish();
  if (done % options_.divergence_check_every != 0 && done != options_.steps) return;
  compare_replicas(done);
}

void Trainer::compare_replicas(std::int64_t done) {
  engine_.gatherer().finish();
  services_.replicas->start(done);
}

void Trainer::digest_tensors(std::int64_t done) {
  if (!services_.digest) return;
  engine_.gatherer().finish();
  services_.digest(done);
}

void Trainer::save(std::int64_t done, const std::function<void(std::int64_t)>& how) {
  // A run that goes on from here finds the lines of all its steps in the log.
  settle_reports(done);
  if (reporting_.steps != nullptr) reporting_.steps->flush();
  if (services_.replicas != nullptr) services_.replicas->finish();
  set_activity(saving_activity);
  const auto start = Clock::now();
  test_delay(DelayPlace::checkpoint);
  how(done);
  const double seconds = seconds_since(start);
  checkpoint_after_seconds_ += seconds;
  engine_.note_pause({.checkpoint = 1e3 * seconds});
}

void Trainer::report(std::int64_t step) {
  const StepReport report = engine_.read(step);
  final_loss_ = report.loss;
  if (services_.requests != nullptr) services_.requests->agree(report.flags);
  if (reporting_.bubble != nullptr) reporting_.bubble->add(step);
  const bool finite = std::isfinite(report.loss) && std::isfinite(report.grad_norm);
  // An overflow is none: the smaller loss scale of the next step will tell.
  if (finite) in_a_row_ = 0;
  if (!finite && !report.overflowed) {
    ++in_a_row_;
    ++non_finite_;
  }
  if (reporting_.steps != nullptr) pass_on(report);
  if (!finite && !report.overflowed) guard(report);
}

void Trainer::pass_on(const StepReport& report) {
  // It is written two steps later.
  if (!test_rests(report.step + 2)) {
    StepReports::Entry entry{.metrics = metrics_of(report), .own = report.own};
    if (report.judgement.verdict == ops::LossVerdict::spike && reporting_.metrics != nullptr)
      entry.skipped = spike(report);
    reporting_.steps->add(std::move(entry));
  }
  if (report.timed >= 0) reporting_.steps->learn(report.timed + 1, report.by_rank);
}

StepMetrics Trainer::metrics_of(const StepReport& report) const {
  const std::int64_t done = report.step + 1;
  StepMetrics metrics{.step = done,
                      .loss = report.loss,
                      .learning_rate = report.learning_rate,
                      .grad_norm = report.grad_norm,
                      .items = engine_.targets_of(report.step),
                      .targets = report.targets,
                      .loss_scale = report.loss_scale,
                      .skipped_steps = report.skipped_steps,
                      .non_finite_steps = non_finite_,
                      .epoch = options_.epochs ? options_.epochs(done) : 0,
                      .items_seen = engine_.targets_before(done),
                      .time = std::chrono::system_clock::now()};
  metrics.weight_digest = report.weight_digest;
  metrics.flops = options_.flops_per_item * static_cast<double>(metrics.items);
  metrics.peak_flops = options_.peak_flops;
  if (report.noise) {
    metrics.noise_scale = report.noise->scale;
    metrics.noise_trace = report.noise->trace;
    metrics.noise_square = report.noise->square;
  }
  if (engine_.loss_guard().options().spike_zscore > 0) metrics.spikes = report.judgement.spikes;
  return metrics;
}

// The update of this step was skipped on the device.
void Trainer::guard(const StepReport& report) {
  if (in_a_row_ >= options_.non_finite_limit) {
    if (reporting_.steps != nullptr) reporting_.steps->finish();
    fail(ExitCode::non_finite,
         "step {}: the loss is {} and the gradient norm {}, for {} step(s) in a row "
         "(train.non_finite_limit = {}); {}",
         report.step + 1, report.loss, report.grad_norm, in_a_row_, options_.non_finite_limit,
         advice_for(Trouble::non_finite, options_.facts));
  }
  if (reporting_.metrics == nullptr) return;
  log::get("train").warn(
      "step {}: the loss is {} and the gradient norm {}; the step was skipped, {} of {} in a row "
      "that end the run (train.non_finite_limit)",
      report.step + 1, report.loss, report.grad_norm, in_a_row_, options_.non_finite_limit);
}

SkippedBatch Trainer::spike(const StepReport& report) {
  SkippedBatch skipped{
      .step = report.step + 1,
      .zscore = report.judgement.zscore,
      .samples = services_.samples ? services_.samples(report.step) : std::vector<std::int64_t>{},
      .time = std::chrono::system_clock::now()};
  log::get("train").warn(
      "step {}: the loss {} lies {:.1f} deviations above its running mean; the batch was skipped "
      "(train.spike_zscore = {}), samples {}",
      skipped.step, report.loss, skipped.zscore, engine_.loss_guard().options().spike_zscore,
      fmt::join(skipped.samples, " "));
  return skipped;
}

void Trainer::run_evaluation(std::int64_t step) {
  const auto start = Clock::now();
  const EvaluationResult result = services_.evaluate();
  const double seconds = seconds_since(start);
  evaluation_seconds_ += seconds;
  engine_.note_pause({.evaluation = 1e3 * seconds});
  if (reporting_.metrics == nullptr) return;
  if (result.targets == 0) {
    log::get("train").warn(
        "step {}: no target of the validation samples counts (loss masks), so there is no "
        "validation loss; raise train.eval_batches, or give other data",
        step + 1);
    return;
  }
  EvaluationMetrics metrics{.step = step + 1,
                            .validation_loss = result.loss,
                            .accuracy = {},
                            .evaluation_ms = 1e3 * seconds,
                            .time = std::chrono::system_clock::now()};
  if (options_.classifier) metrics.accuracy = result.accuracy;
  for (const EvaluationResult::Part& part : result.parts) {
    if (part.source.empty()) continue;
    metrics.sources.push_back({.name = part.source, .loss = part.loss});
    if (options_.classifier) metrics.sources.back().accuracy = part.accuracy;
  }
  reporting_.metrics->evaluation(metrics);
}

}  // namespace trireme
