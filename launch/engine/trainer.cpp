// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/trainer.h"

#include <fmt/ranges.h>

#include <chrono>
#include <cmath>
#include <utility>

#include "launch/engine/state/start_times.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/test_hooks.h"
#include "runtime/comm/watchdog/step_watch.h"
#include "runtime/config/batch_ramp.h"
#include "runtime/config/rules/rules.h"
#include "runtime/telemetry/certificate/certificate.h"
#include "runtime/telemetry/run_directory.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

// Empty where nothing is left to be traced.
std::optional<StepTracer> tracer_of(Session& session, std::int64_t done) {
  const TelemetryConfig& telemetry = session.config.telemetry;
  const auto steps = parse_trace_steps(telemetry.trace);
  if (!steps) return std::nullopt;
  const bool leader = session.world->rank() == 0;
  if (steps->last <= done) {
    if (leader)
      log::get("trace").warn(
          "telemetry.trace: {}: the run resumes after step {}; nothing is traced", telemetry.trace,
          done);
    return std::nullopt;
  }
  if (session.config.device.graphs == GraphMode::step && leader)
    log::get("trace").info(
        "steps {} to {} run without graphs, because a trace cannot show their inside", steps->first,
        steps->last);
  return std::optional<StepTracer>(
      std::in_place, *session.device, session.streams, session.mesh,
      TraceOptions{.first = steps->first,
                   .last = steps->last,
                   .directory = RunDirectory::traces_in(session.config.run.directory)});
}

}  // namespace

Trainer::Trainer(Engine& engine, RunObserver& observer, StepRequests& requests,
                 const TrainingStart& start, const RunSinks& sinks)
    : engine_(engine),
      config_(engine.session().config),
      parts_(engine.training()),
      state_(*parts_.state),
      steps_(state_.engine),
      observer_(observer),
      requests_(requests),
      start_(start),
      sinks_(sinks),
      leader_(engine.session().world->rank() == 0),
      tracer_(tracer_of(engine.session(), start.done)),
      bubble_(steps_.runner()),
      reports_(engine.session().mesh, sinks.metrics, sinks.ranks, sinks.keep_splits),
      reported_(start.done) {}

void Trainer::run() {
  const StepWatch watch;
  if (state_.self_test) test_ranks(start_.done);
  const auto start = Clock::now();
  try {
    loop();
  } catch (const Error& error) {
    reports_.abandon();
    // All ranks end here with every stream in order, so the trace up to the error can be written.
    if (error.code() == ExitCode::non_finite && tracer_) write_trace_of_end();
    throw;
  } catch (...) {
    reports_.abandon();
    throw;
  }
  wall_seconds_ = seconds_since(start);
  reports_.flush();
}

TrainingEnd Trainer::ending() const {
  return {.start = start_,
          .done = parts_.done,
          .reached = parts_.reached,
          .stopped = stopped_,
          .final_loss = final_loss_,
          .wall_seconds = wall_seconds_,
          .evaluation_seconds = evaluation_seconds_,
          .checkpoint_after_seconds = checkpoint_after_seconds_,
          .bubble = bubble_,
          .reports = reports_};
}

void Trainer::keep_times() {
  if (!leader_ || !parts_.checkpoints) return;
  const double seconds = parts_.checkpoints->longest_save_seconds();
  if (seconds <= requests_.save_seconds().value_or(0)) return;
  requests_.save_took(seconds);
  try {
    keep_start_times(config_.run.directory, {.to_first_step = requests_.seconds_to_first_step(),
                                             .save = seconds,
                                             .step = requests_.step_seconds()});
  } catch (const Error& error) {  // no reason to lose a run
    log::get("train").warn("{}", error.what());
  }
}

void Trainer::write_trace_of_end() noexcept {
  try {
    tracer_->write();
  } catch (const std::exception& error) {  // the run's own error is on its way
    log::get("trace").warn("{}", error.what());
  }
}

void Trainer::loop() {
  // Ranks that start from other weights show themselves in the first step.
  if (state_.replicas) compare_replicas(start_.done);
  for (std::int64_t step = start_.done; step < config_.train.steps; ++step) {
    run(step);
    parts_.done = step + 1;
    if (!between_steps(parts_.done)) break;
  }
  if (state_.replicas) state_.replicas->finish();
  if (tracer_) tracer_->write();
}

void Trainer::run(std::int64_t step) {
  test_step_begins(step);
  if (tracer_) tracer_->begin_step(step);
  steps_.run(step, *parts_.batches);
  if (tracer_) tracer_->end_step(step);
}

bool Trainer::between_steps(std::int64_t done) {
  checkpoint_after_seconds_ = 0;
  bool final_step = done == config_.train.steps;
  const bool evaluate_now =
      parts_.validation && (final_step || evaluation_is_due(config_.train, done));
  const bool digest_every_step = config_.telemetry.tensor_digests;
  // A step is reported while the next one runs, unless the run stops or looks at the weights here.
  if (final_step || evaluate_now || digest_every_step) {
    settle_reports(done);
  } else {
    report_up_to(done - 1);
  }
  if (tracer_) tracer_->write_after(reported_);
  check_replicas(done);
  if (digest_every_step) digest_tensors(done);
  if (!test_rests(done - 1)) observer_.after_step(done);
  if (evaluate_now) evaluate(done);
  if (parts_.reached && !final_step) {
    final_step = true;
    if (state_.replicas && !compares_replicas(done)) compare_replicas(done);
  }
  if (!final_step) {
    engine_.check();
    keep_times();
  }
  const StepDecision decision = requests_.take(done);
  // A checkpoint of a rank that computes wrong is worth nothing.
  if (decision.self_test && state_.self_test) test_ranks(done);
  if (std::exchange(best_is_new_, false) || decision.checkpoint) {
    settle_reports(done);
    if (!digest_every_step) digest_tensors(done);
    save(done, SaveTo::disk);
    requests_.saved();
  }
  // The last state is saved to disk.
  if (decision.memory_copy && !final_step) save(done, SaveTo::memory);
  if (decision.stop == StopReason::none || final_step) return !final_step;
  stopped_ = decision.stop;
  settle_reports(done);
  return false;
}

void Trainer::report_up_to(std::int64_t end) {
  for (; reported_ < end; ++reported_)
    report(reported_);
}

void Trainer::settle_reports(std::int64_t end) {
  report_up_to(end);
  reports_.finish();
}

// A comparison is judged after the next step is on its way, or before the weights are saved.
void Trainer::check_replicas(std::int64_t done) {
  if (!state_.replicas) return;
  state_.replicas->finish();
  if (compares_replicas(done)) compare_replicas(done);
}

bool Trainer::compares_replicas(std::int64_t done) const {
  return done % config_.train.divergence_check_every == 0 || done == config_.train.steps;
}

void Trainer::compare_replicas(std::int64_t done) {
  steps_.gatherer().finish();
  state_.replicas->start(done);
}

void Trainer::test_ranks(std::int64_t done) {
  const std::vector<HealthSample> once = state_.self_test->run();
  HealthReport report = judge_health(once, start_.hosts);
  if (!report.slow.empty())
    report = judge_health(both_of(once, state_.self_test->run()), start_.hosts);
  if (leader_) {
    log::get("train").debug("self test after step {}: {}", done, report.summary);
    // With several ranks per core, a waiting rank would look slow.
    for (const std::string& slow : report.slow)
      if (!share_cores(start_.facts))
        log::get("train").warn("self test after step {}: {}", done, slow);
  }
  if (report.wrong.empty()) return;
  fail(ExitCode::communication,
       "self test after step {}: {}; leave that machine out and resume from a checkpoint of a time "
       "when it still worked correctly (telemetry.health_minutes)",
       done, fmt::join(report.wrong, "; "));
}

void Trainer::digest_tensors(std::int64_t done) {
  if (!state_.digests) return;
  steps_.gatherer().finish();
  const std::vector<std::uint64_t> all = state_.digests->of_all(*engine_.session().streams.compute);
  if (!leader_) return;
  std::map<std::string, std::string> tensors;
  for (std::size_t i = 0; i < all.size(); ++i)
    tensors.emplace(state_.digests->names()[i], digest_text(all[i]));
  observer_.digests(done, tensors);
}

void Trainer::save(std::int64_t done, SaveTo to) {
  // A run that resumes here needs the lines of all its steps in the log.
  settle_reports(done);
  reports_.flush();
  if (state_.replicas) state_.replicas->finish();
  set_activity(saving_activity);
  const auto start = Clock::now();
  test_delay(DelayPlace::checkpoint);
  if (to == SaveTo::disk) observer_.saving(done);
  if (parts_.checkpoints) parts_.checkpoints->save(done, to);
  const double seconds = seconds_since(start);
  checkpoint_after_seconds_ += seconds;
  steps_.note_pause(TimePart::checkpoint, 1e3 * seconds);
}

void Trainer::report(std::int64_t step) {
  const StepReport report = steps_.read(step);
  final_loss_ = report.loss;
  requests_.agree(report.flags);
  bubble_.add(step);
  const bool finite = std::isfinite(report.loss) && std::isfinite(report.grad_norm);
  // An overflow does not count: the next step has a smaller loss scale.
  if (finite) in_a_row_ = 0;
  if (!finite && !report.overflowed) {
    ++in_a_row_;
    ++non_finite_;
  }
  if (report.judgement.verdict == ops::LossVerdict::no_targets && leader_)
    log::get("train").warn(
        "step {}: no target of its batch counts (all are ignored), so it was skipped: no update, "
        "no weight decay",
        report.step + 1);
  pass_on(report);
  if (!finite && !report.overflowed) guard(report);
}

void Trainer::pass_on(const StepReport& report) {
  // It is written two steps later.
  if (!test_rests(report.step + 2)) {
    StepReports::Entry entry{.metrics = metrics_of(report), .own = report.own};
    if (report.judgement.verdict == ops::LossVerdict::spike && leader_)
      entry.skipped = spike(report);
    reports_.add(std::move(entry));
  }
  if (report.timed >= 0) reports_.learn(report.timed + 1, report.by_rank);
  observer_.read(report);
}

StepMetrics Trainer::metrics_of(const StepReport& report) const {
  const std::int64_t done = report.step + 1;
  const ModelTraits& traits = engine_.session().traits();
  const std::int64_t of_item = traits.targets_per_sample() / traits.items_per_sample();
  StepMetrics metrics{.step = done,
                      .loss = report.loss,
                      .learning_rate = report.learning_rate,
                      .grad_norm = report.grad_norm,
                      .items = steps_.targets_of(report.step) / of_item,
                      .targets = report.targets,
                      .targets_per_item = of_item,
                      .loss_scale = report.loss_scale,
                      .skipped_steps = report.skipped_steps,
                      .non_finite_steps = non_finite_,
                      .epoch = parts_.sampler ? parts_.sampler->epochs(done) : 0,
                      .items_seen = steps_.targets_before(done) / of_item,
                      .time = std::chrono::system_clock::now()};
  metrics.weight_digest = report.weight_digest;
  metrics.expert_loads = report.loads;
  metrics.flops = sinks_.flops_per_item * static_cast<double>(metrics.items);
  metrics.peak_flops = sinks_.peak_flops;
  if (report.noise) {
    metrics.noise_scale = report.noise->scale;
    metrics.noise_trace = report.noise->trace;
    metrics.noise_square = report.noise->square;
  }
  if (steps_.loss_guard().options().spike_zscore > 0) metrics.spikes = report.judgement.spikes;
  return metrics;
}

// The update of this step was skipped on the device.
void Trainer::guard(const StepReport& report) {
  if (in_a_row_ >= config_.train.non_finite_limit) {
    reports_.finish();
    fail(ExitCode::non_finite,
         "step {}: the loss is {} and the gradient norm {}, for {} step(s) in a row "
         "(train.non_finite_limit = {}); {}",
         report.step + 1, report.loss, report.grad_norm, in_a_row_, config_.train.non_finite_limit,
         advice_for(Bottleneck::non_finite, start_.facts));
  }
  if (!leader_) return;
  log::get("train").warn(
      "step {}: the loss is {} and the gradient norm {}; the step was skipped; {} of {} in a row, "
      "after which the run ends (train.non_finite_limit)",
      report.step + 1, report.loss, report.grad_norm, in_a_row_, config_.train.non_finite_limit);
}

SkippedBatch Trainer::spike(const StepReport& report) {
  SkippedBatch skipped{.step = report.step + 1,
                       .zscore = report.judgement.zscore,
                       .samples = parts_.sampler ? parts_.sampler->samples(report.step)
                                                 : std::vector<std::int64_t>{},
                       .time = std::chrono::system_clock::now()};
  log::get("train").warn(
      "step {}: the loss {} is {:.1f} standard deviations above its running mean; the batch was "
      "skipped (train.spike_zscore = {}), samples {}",
      skipped.step, report.loss, skipped.zscore, steps_.loss_guard().options().spike_zscore,
      fmt::join(skipped.samples, " "));
  return skipped;
}

void Trainer::evaluate(std::int64_t done) {
  const auto start = Clock::now();
  const EvaluationResult result = parts_.validation->run();
  const double seconds = seconds_since(start);
  evaluation_seconds_ += seconds;
  steps_.note_pause(TimePart::evaluation, 1e3 * seconds);
  if (leader_) write_evaluation(done, result, seconds);
  observer_.evaluated(done, result);
  if (config_.train.stop_at.given()) judge_target(done, result);
  if (!config_.checkpoint.keep_best.empty()) judge_best(done, result);
}

// An evaluation's result has the same bits on every rank.
void Trainer::judge_target(std::int64_t done, const EvaluationResult& result) {
  const StopTarget& target = config_.train.stop_at;
  const auto value = metric_of(engine_.session().traits().targets, result, target.metric);
  if (value && target.passed_by(*value)) {
    end_at(done, {target.metric, *value});
  } else if (leader_ && value && done == config_.train.steps) {
    log::get("train").warn("train.stop_at: {} at the last step, train.steps = {}",
                           describe(target, *value), done);
  }
}

void Trainer::end_at(std::int64_t done, const ReachedTarget& reached) {
  parts_.reached = reached;
  if (parts_.checkpoints) parts_.checkpoints->note_reached(reached);
  if (leader_)
    log::get("train").info("stopped: {} at step {} ({})", describe(config_.train.stop_at, reached),
                           done, reached.key());
}

void Trainer::judge_best(std::int64_t done, const EvaluationResult& result) {
  if (!parts_.checkpoints) return;
  BestEvaluation best = parts_.checkpoints->best();
  best_is_new_ = best.add(metric_of(engine_.session().traits().targets, result, best.metric), done);
  parts_.checkpoints->note_best(best);
  if (leader_ && best_is_new_)
    log::get("train").info("best {} so far; its checkpoint is kept (checkpoint.keep_best)",
                           best.describe());
  const std::int64_t patience = config_.train.patience;
  if (patience > 0 && best.since >= patience && !parts_.reached)
    end_at(done, {std::string(patience_metric), static_cast<double>(best.since)});
}

void Trainer::write_evaluation(std::int64_t done, const EvaluationResult& result, double seconds) {
  if (result.targets == 0) {
    log::get("train").warn(
        "step {}: loss masks leave no target in the validation samples, so there is no validation "
        "loss; raise train.eval_batches, or use other data",
        done);
    return;
  }
  if (sinks_.metrics == nullptr) return;
  const ModelTraits traits = engine_.session().traits();
  EvaluationMetrics metrics{.step = done,
                            .validation_loss = result.loss,
                            .quality = qualities_of(traits.targets, result),
                            .evaluation_ms = 1e3 * seconds,
                            .time = std::chrono::system_clock::now()};
  for (const EvaluationPart& part : result.parts) {
    if (part.source.empty()) continue;
    metrics.sources.push_back(
        {.name = part.source, .loss = part.loss, .quality = qualities_of(traits.targets, part)});
  }
  sinks_.metrics->evaluation(metrics);
}

}  // namespace trireme
