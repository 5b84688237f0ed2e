// SPDX-License-Identifier: Apache-2.0
#include "launch/job/train_reports.h"

#include <chrono>

#include "launch/engine/agreement/core_sharing.h"
#include "launch/engine/autotune.h"
#include "launch/exchange/hf_files.h"
#include "launch/job/libraries.h"
#include "launch/job/run_advice.h"
#include "launch/job/run_results.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

// Measured, and predicted by the schedule from the stages' times; empty without a pipeline.
// Collective over the pipeline.
std::optional<BubbleShares> pipeline_bubble(Session& session, const ScheduleShape& shape,
                                            const BubbleMeter& meter) {
  if (shape.stages == 1) return std::nullopt;
  const BubbleReport report = meter.report(session.mesh.pipeline());
  if (session.world->rank() == 0)
    log::get("train").info(
        "pipeline bubble: measured {:.1f} %, predicted {:.1f} % from the stages' times, {:.1f} % "
        "with equal stages ({} x {} micro-batches, {})",
        100 * report.measured, 100 * report.predicted, 100 * report.ideal, shape.stages,
        shape.micro_batches, name_of(shape.kind));
  return BubbleShares{.measured = report.measured, .predicted = report.predicted};
}

}  // namespace

void TrainReports::weights_missing(const FoundCheckpoint& end) {
  write_results(engine_.session(), end);
}

RunSinks TrainReports::open(const TrainingStart& start) {
  const Config& config = start.config;
  TrainingParts& parts = engine_.training();
  std::optional<std::int64_t> done;
  if (start.again) done = start.done;
  const RunEnvironment environment{engine_.session().world->size(), start.hosts, library_versions(),
                                   request_.command_line};
  reporter_ = std::make_unique<Reporter>(
      config, request_.requested, environment, engine_.session().traits(), start.facts,
      Reporter::Data{
          engine_.dataset()->fingerprint(),
          [&parts](std::int64_t step) { return parts.sampler->samples_digest(step - 1); }},
      done);
  if (const std::string base = config_of_weights(config.train.initial_weights);
      !base.empty() && start.done == 0)
    take_along(parent_directory(base), config.run.directory);
  reporter_->sinks.check_first([this] { engine_.require_run(); });
  reporter_->warn(
      config, start.hosts, [&parts](std::int64_t step) { return parts.sampler->samples(step - 1); },
      [&parts] { return parts.batches->read_work().decoded_again; });
  return {.metrics = &reporter_->sinks,
          .ranks = &reporter_->ranks,
          .keep_splits = request_.split_times,
          .flops_per_item = planned_.flops_per_item,
          .peak_flops = planned_.peak_flops};
}

void TrainReports::saving(std::int64_t /*done*/) {
  if (reporter_) reporter_->exporters.flush();
}

void TrainReports::end(const TrainingEnd& ending) {
  if (reporter_) write_memory(ending.memory, *reporter_);
  if (ending.stopped == StopReason::none) {
    engine_.require_run();
    write_end(ending);
  }
  if (request_.split_times && reporter_) write_time_split(ending.reports, *reporter_);
}

void TrainReports::write_end(const TrainingEnd& ending) {
  Session& session = engine_.session();
  TrainingState& state = *engine_.training().state;
  const Config& config = session.config;
  if (planned_.seconds)
    log::get("train").info("step time: predicted {:.1f} ms, measured {:.1f} ms on average",
                           1e3 * *planned_.seconds,
                           1e3 * (ending.wall_seconds - ending.evaluation_seconds) /
                               static_cast<double>(config.train.steps - ending.start.done));
  const std::uint64_t peak = peak_memory_of_any_rank(session);
  const HostLoad load = most_loaded(*session.world, ending.load);
  write_results(session, state, ending.final_loss, reporter_.get());
  // In other modes a later run would differ if this one used the library's suggestion.
  if (config.device.autotune != "off" && config.reproducibility == Reproducibility::fast)
    complete_tuned_gemms(*session.world, *session.streams.compute, config.device.autotune);
  const auto bubble = pipeline_bubble(session, state.engine.runner().shape(), ending.bubble);
  RunSummary summary;
  if (reporter_) {
    summary = reporter_->ranks.fold().summary();
    summary.wall_seconds = ending.wall_seconds;
  }
  const ReadWork reading = engine_.training().batches->read_work();
  std::vector<Trial> trials = advice_of_run(session, ending.start.facts, summary, reading);
  session.world->barrier();  // the last wait with a deadline
  if (!reporter_) return;
  reporter_->exporters.finish(RunEnd::done);
  reporter_->ranks.end({.step = config.train.steps,
                        .wall_seconds = ending.wall_seconds,
                        .evaluation_seconds = ending.evaluation_seconds,
                        .checkpoint_after_seconds = ending.checkpoint_after_seconds,
                        .peak_memory_bytes = peak,
                        .bubble = bubble,
                        .decoded_again = reading.decoded_again,
                        .load = load,
                        .trials = std::move(trials),
                        .time = std::chrono::system_clock::now()});
  reporter_->console.finish(reporter_->ranks.fold().summary());
}

void TrainReports::stopped() {
  if (reporter_) reporter_->exporters.finish(RunEnd::stopped);
}

}  // namespace trireme
