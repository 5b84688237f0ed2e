// SPDX-License-Identifier: Apache-2.0
#include "launch/job/train_reports.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "launch/bench/comm/links.h"
#include "launch/engine/agreement/core_sharing.h"
#include "launch/engine/autotune.h"
#include "launch/engine/memory_plan.h"
#include "launch/engine/options.h"
#include "launch/exchange/hf_files.h"
#include "launch/job/run_report.h"
#include "launch/job/run_results.h"
#include "launch/plan/neighbours.h"
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

// By role; NCCL is not used on a CPU or by one rank.
std::map<std::string, int> nccl_ctas(const Config& config, int ranks) {
  std::map<std::string, int> most;
  if (device_type(config) != DeviceType::cuda || ranks == 1) return most;
  const CtaLimits limits = cta_limits(config);
  for (std::size_t i = 0; i < comm_roles; ++i)
    most.emplace(name_of(static_cast<CommRole>(i)), limits.most[i]);
  return most;
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
                                   request_.command_line,
                                   nccl_ctas(config, engine_.session().world->size())};
  reporter_ = std::make_unique<Reporter>(
      config, request_.requested, environment, engine_.session().traits(), start.facts,
      Reporter::Data{
          engine_.dataset()->fingerprint(),
          [&parts](std::int64_t step) { return parts.sampler->samples_digest(step - 1); }},
      done);
  if (const std::string base = config_of_weights(config.train.initial_weights);
      !base.empty() && start.done == 0)
    take_along(parent_directory(base), config.run.directory);
  if (const auto& shards = engine_.dataset()->shards(); !shards.empty() && start.done == 0)
    keep_end_of_answers(config.run.directory, shards.front());
  if (!config.telemetry.mllog.empty()) {
    mllog_.emplace(engine_, start, request_.began);
    reporter_->sinks.add(*mllog_);
  }
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
  if (reporter_)
    reporter_->certificate.files(ending.done, std::array{reporter_->directory.ranks_path(),
                                                         reporter_->directory.log_path()});
}

void TrainReports::write_end(const TrainingEnd& ending) {
  Session& session = engine_.session();
  TrainingState& state = *engine_.training().state;
  const Config& config = session.config;
  if (planned_.seconds)
    log::get("train").info("step time: predicted {:.1f} ms, measured {:.1f} ms on average",
                           1e3 * *planned_.seconds,
                           1e3 * (ending.wall_seconds - ending.evaluation_seconds) /
                               static_cast<double>(ending.done - ending.start.done));
  const std::uint64_t peak = peak_memory_of_any_rank(session);
  const HostLoad load = most_loaded(*session.world, ending.load);
  write_results(session, state, ending, reporter_.get());
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
  reporter_->ranks.end(
      {.step = ending.done,
       .reached = ending.reached ? describe(config.train.stop_at, *ending.reached) : "",
       .wall_seconds = ending.wall_seconds,
       .evaluation_seconds = ending.evaluation_seconds,
       .checkpoint_after_seconds = ending.checkpoint_after_seconds,
       .peak_memory_bytes = peak,
       .bubble = bubble,
       .decoded_again = reading.decoded_again,
       .load = load,
       .trials = std::move(trials),
       .time = std::chrono::system_clock::now()});
  reporter_->console.finish(reporter_->ranks.fold().whole());
}

void TrainReports::stopped() {
  if (reporter_) reporter_->exporters.finish(RunEnd::stopped);
}

namespace {

constexpr double worth_measuring = 0.02;
// Of a run that is long enough for its times to be told from noise, and to be measured after.
constexpr std::int64_t enough_micro_batches = 60;

double per_step(double milliseconds, const RunSummary& summary) {
  return milliseconds / static_cast<double>(std::max<std::int64_t>(summary.totals.steps, 1));
}

// What `milliseconds` less in each step gain.
void add(std::vector<Trial>& trials, std::string setting, double milliseconds,
         const RunSummary& summary, std::string unless) {
  const double seconds = 1e-3 * milliseconds * static_cast<double>(summary.totals.steps);
  if (seconds > 0 && summary.wall_seconds > 0)
    trials.push_back({.setting = std::move(setting),
                      .gain = seconds / summary.wall_seconds,
                      .unless = std::move(unless)});
}

// Readers that are busy and do not compute wait for storage, and more of them wait at the same
// time.
void add_workers(std::vector<Trial>& trials, const Config& config, const RunSummary& summary,
                 const ReadWork& reading) {
  constexpr double busy = 0.8, computing = 0.3, comfortable = 0.9;
  const DataConfig& data = config.data;
  const StepTotals& totals = summary.totals;
  const double wait = per_step(totals[TimePart::data_wait], summary),
               step = per_step(totals[TimePart::step], summary);
  const auto workers = static_cast<double>(data.workers);
  if (totals[TimePart::step] <= 0 || summary.slow.data.rank >= 0 ||
      1e3 * reading.seconds < busy * workers * totals[TimePart::step] ||
      reading.computing > computing * reading.seconds)
    return;
  // No more pieces of batches are under way than this.
  const std::int64_t most = data.prefetch * config.train.micro_batch;
  const double read = std::min(per_step(1e3 * reading.seconds, summary), workers * step);
  std::int64_t more = std::min(2 * data.workers, most);
  for (; 2 * more <= std::min(most, 8 * data.workers) &&
         read / static_cast<double>(more) > comfortable * (step - wait);
       more *= 2) {
  }
  if (more <= data.workers) return;
  const double then = std::max(step - wait, read / static_cast<double>(more));
  add(trials, fmt::format("data.workers={}", more), std::min(wait, step - then), summary,
      "if the storage serves so many readers");
}

// A cache that keeps every decoded chunk, so that none is decoded again.
void add_cache(std::vector<Trial>& trials, const Config& config, const RunSummary& summary,
               const ReadWork& reading) {
  // Of several sources each has its own, and which it was is not known.
  if (reading.decoded_again < notable_decoded_again || !config.data.sources.empty()) return;
  const double wait = per_step(summary.totals[TimePart::data_wait], summary),
               step = per_step(summary.totals[TimePart::step], summary);
  const double read = std::min(
      per_step(1e3 * reading.seconds, summary) / static_cast<double>(config.data.workers), step);
  const double then = std::max(step - wait, read * (1 - reading.decoded_again));
  add(trials, fmt::format("data.cache_megabytes={:.0f}", std::ceil(1e-6 * reading.chunk_bytes)),
      std::min(wait, step - then), summary, "if every rank has that memory");
}

plan::Link link_of(Session& session, Communicator& group) {
  comm_bench::MeasureOptions options = comm_bench::link_options(*session.device, /*repeats=*/5);
  options.batch_seconds = 5e-3;
  return comm_bench::all_reduce_link(group, *session.world, *session.device, options);
}

// Collective. Nothing where a rank lacks the memory, or a link is too noisy to be told.
std::optional<MachineRates> measure(Session& session) {
  constexpr std::size_t needed = std::size_t{32} << 20;
  bool fits = true;
  try {
    const Buffer room(*session.device, needed, MemoryKind::device);
  } catch (const OutOfMemory&) {
    fits = false;
  }
  if (largest_of_any_rank<1>(*session.world, {fits ? 0 : 1})[0] != 0) return std::nullopt;
  MachineRates machine;
  const MeshShape& mesh = session.mesh.shape();
  machine.others = link_of(session, mesh.data > 1 ? session.mesh.data() : *session.world);
  machine.tensor = mesh.tensor > 1    ? link_of(session, session.mesh.tensor())
                   : mesh.context > 1 ? link_of(session, session.mesh.context())
                                      : machine.others;
  if (session.world->rank() == 0) {
    machine.matmuls =
        model_bench::time_matmuls(*session.device, compute_dtype(session.config.precision));
    machine.launch = model_bench::time_launch(*session.device);
  }
  session.world->barrier();
  if (machine.others.bandwidth == 0 || machine.tensor.bandwidth == 0) return std::nullopt;
  return machine;
}

// Whether another layout could gain. Rank 0 knows.
bool worth_it(const Session& session, const RunSummary& summary) {
  const StepTotals& totals = summary.totals;
  if (session.world->size() == 1 ||
      totals.steps * session.pipeline.micro_batches < enough_micro_batches)
    return false;
  const double most = std::max(
      {totals[TimePart::reduce_comm], totals[TimePart::tensor_comm], totals[TimePart::bubble]});
  return 1e-3 * most >= worth_measuring * summary.wall_seconds;
}

}  // namespace

std::vector<Trial> advice_of_run(Session& session, const RunFacts& facts, const RunSummary& summary,
                                 const ReadWork& reading) {
  std::vector<Trial> trials;
  const bool leader = session.world->rank() == 0;
  if (leader) add_workers(trials, session.config, summary, reading);
  if (leader) add_cache(trials, session.config, summary, reading);
  const bool wanted = leader && worth_it(session, summary);
  if (largest_of_any_rank<1>(*session.world, {wanted ? 1 : 0})[0] == 0) return trials;
  const auto machine = measure(session);
  if (!leader || !machine) return trials;
  std::ranges::move(neighbour_trials(session.config, facts, summary, *machine),
                    std::back_inserter(trials));
  return trials;
}

}  // namespace trireme
