// SPDX-License-Identifier: Apache-2.0
#include "launch/job/training.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <set>

#include "launch/checkpoint/their_files.h"
#include "launch/job/energy.h"
#include "launch/job/libraries.h"
#include "launch/job/replays.h"
#include "launch/job/run_report.h"
#include "launch/job/run_results.h"
#include "launch/job/snapshots.h"
#include "launch/job/start_times.h"
#include "launch/job/step_samples.h"
#include "launch/plan/layout_plan.h"
#include "runtime/base/host_name.h"
#include "runtime/base/log.h"
#include "runtime/comm/gather_texts.h"
#include "runtime/config/rules/trace_steps.h"
#include "runtime/engine/autotune.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/options.h"
#include "runtime/telemetry/run_directory.h"
#include "runtime/train/step_requests.h"
#include "runtime/train/trainer.h"

namespace trireme {
namespace {

StepRequestOptions request_options(const Config& config, bool leader, std::int64_t until) {
  Deadlines deadlines;
  if (config.run.deadline_minutes > 0) deadlines.configured = 60 * config.run.deadline_minutes;
  if (leader) deadlines.allocation = allocation_times().left;
  const std::optional<StartTimes> earlier = last_start_times(config.run.directory);
  return {.leader = leader,
          .every_steps = config.checkpoint.every_steps,
          .in_memory_every_steps = config.checkpoint.in_memory_every_steps,
          .until = until,
          .every_minutes = config.checkpoint.every_minutes,
          .test_minutes = config.telemetry.health_minutes,
          .deadlines = deadlines,
          .earlier_save_seconds = earlier ? std::optional(earlier->save) : std::nullopt};
}

// Before the run begins; on rank 0, which has the clock.
void check_time_limit(const Config& config) {
  const auto limit = allocation_times().whole;
  const auto times = last_start_times(config.run.directory);
  if (limit && times) require_enough_time(*times, *limit, config.run.directory);
}

// On rank 0, whenever a save was longer than those before.
void keep_times(const Config& config, double seconds_before, const Checkpointing& checkpoints,
                StepRequests& requests) {
  const double seconds = checkpoints.longest_save_seconds();
  if (seconds <= requests.save_seconds().value_or(0)) return;
  requests.save_took(seconds);
  try {
    keep_start_times(config.run.directory,
                     {.to_first_step = seconds_before + requests.seconds_to_first_step(),
                      .save = seconds,
                      .step = requests.step_seconds()});
  } catch (const Error& error) {  // no reason to lose a run
    log::get("train").warn("{}", error.what());
  }
}

void log_stop_reason(const Trainer& trainer, const Config& config) {
  if (trainer.stopped() == StopReason::reached) {
    log::get("train").info("stopped at {}; a command without it goes on from the checkpoint in {}",
                           describe(trainer.stopped()), config.run.directory);
    return;
  }
  log::get("train").warn(
      "stopped before step {}: {}; the same command goes on from the checkpoint in {}",
      config.train.steps, describe(trainer.stopped()), config.run.directory);
}

// Collective.
bool is_finished(Session& session, const StartingPoint& start, std::int64_t until) {
  const Config& config = session.config;
  if (!start.done(config.train.steps)) {
    if (until == 0 || start.step() < until) return false;
    if (session.world->rank() == 0)
      log::get("train").info("{} has done {} steps, --until asks for {}: nothing is left to do",
                             config.run.directory, start.step(), until);
    return true;
  }
  if (start.lacks_weights) write_results(session, *start.checkpoint);
  if (session.world->rank() == 0) {
    log::get("train").info("{} has done {} of train.steps = {}: nothing is left to do",
                           config.run.directory, std::max(start.step(), start.finished),
                           config.train.steps);
  }
  return true;
}

// Null but on rank 0. From here on the run directory is written to; nobody goes on before it is
// known to be good.
std::unique_ptr<Reporter> open_reports(Engine& engine, const StartingPoint& start,
                                       const RunFacts& facts, const std::vector<std::string>& hosts,
                                       const TrainingRequest& request) {
  const Session& session = engine.session();
  const Sampler& sampler = *engine.training().sampler;
  std::unique_ptr<Reporter> reporter;
  engine.open_run([&] {
    std::optional<std::int64_t> done;
    if (start.again && !start.overwrite) done = start.step();
    reporter = std::make_unique<Reporter>(
        session.config, request.requested,
        RunEnvironment{session.world->size(), hosts, library_versions(), request.command_line},
        session.traits(), facts,
        Reporter::Data{engine.dataset()->fingerprint(),
                       [&sampler](std::int64_t step) { return samples_digest(sampler, step - 1); }},
        done);
    if (const std::string base = config_of_weights(session.config.train.initial_weights);
        !base.empty() && !start.checkpoint)
      take_along(parent_directory(base), session.config.run.directory);
    reporter->sinks.check_first([&engine] { engine.require_run(); });
    return &reporter->sinks;
  });
  return reporter;
}

// Empty where nothing is left to be traced.
std::optional<StepTracer> tracer_of(Session& session, const StartingPoint& start) {
  const auto steps = parse_trace_steps(session.config.telemetry.trace);
  if (!steps) return std::nullopt;
  if (steps->last <= start.step()) {
    if (session.world->rank() == 0)
      log::get("trace").warn(
          "telemetry.trace: {}: the run goes on after step {}; nothing is traced",
          session.config.telemetry.trace, start.step());
    return std::nullopt;
  }
  if (session.config.device.graphs == GraphMode::step && session.world->rank() == 0)
    log::get("trace").info("steps {} to {} run without graphs, whose inside no trace shows",
                           steps->first, steps->last);
  return std::optional<StepTracer>(
      std::in_place, *session.device, session.streams, session.mesh,
      TraceOptions{.first = steps->first,
                   .last = steps->last,
                   .directory = RunDirectory::traces_in(session.config.run.directory)});
}

double mean_step_seconds(const Trainer& trainer, const Config& config, const StartingPoint& start) {
  const auto steps = static_cast<double>(config.train.steps - start.step());
  return (trainer.wall_seconds() - trainer.evaluation_seconds()) / steps;
}

void log_step_time(double planned_seconds, double mean_seconds) {
  log::get("train").info("step time: predicted {:.1f} ms, measured {:.1f} ms on average",
                         1e3 * planned_seconds, 1e3 * mean_seconds);
}

// Collective.
void leave_results(Engine& engine, const Trainer& trainer, const BubbleMeter& meter,
                   const RunFacts& facts, const MachineLoad& load, Reporter* reporter) {
  Session& session = engine.session();
  TrainingState& state = *engine.training().state;
  const Config& config = session.config;
  const std::uint64_t peak = peak_memory_of_any_rank(session);
  const HostLoad loaded = most_loaded(*session.world, load);
  write_results(session, state, trainer.final_loss(), reporter);
  // Elsewhere a later run would have other bits where this one took the library's suggestion.
  if (config.device.autotune != "off" && config.reproducibility == Reproducibility::fast)
    complete_tuned_gemms(*session.world, *session.streams.compute, config.device.autotune);
  ReplayInput input{.facts = facts,
                    .pipeline = pipeline_report(session, state.engine.runner(), meter),
                    .last = {},
                    .reading = engine.training().batches->read_work()};
  if (input.pipeline)
    input.last = last_pass_of(*session.model, *session.streams.compute, state.engine.last_batch(),
                              state.engine.last_micro_batch());
  if (reporter != nullptr) {
    input.summary = reporter->ranks.fold().summary();
    input.summary.wall_seconds = trainer.wall_seconds();
  }
  std::vector<Trial> replays = replays_of(session, input);
  session.world->barrier();  // the last wait that has a deadline
  if (reporter == nullptr) return;
  reporter->exporters.finish(RunEnd::done);
  std::optional<BubbleShares> bubble;
  if (const auto& report = input.pipeline)
    bubble = {.measured = report->measured, .predicted = report->predicted};
  reporter->ranks.end({.step = config.train.steps,
                       .wall_seconds = trainer.wall_seconds(),
                       .evaluation_seconds = trainer.evaluation_seconds(),
                       .checkpoint_after_seconds = trainer.checkpoint_after_seconds(),
                       .peak_memory_bytes = peak,
                       .bubble = bubble,
                       .decoded_again = input.reading.decoded_again,
                       .load = loaded,
                       .replays = std::move(replays),
                       .time = std::chrono::system_clock::now()});
  reporter->console.finish(reporter->ranks.fold().summary());
}

// Collective; raises ExitCode::communication on every rank alike.
void test_ranks(SelfTest& test, std::span<const std::string> hosts, const RunFacts& facts,
                bool leader, std::int64_t done) {
  const std::vector<HealthSample> once = test.run();
  HealthReport report = judge_health(once, hosts);
  if (!report.slow.empty()) report = judge_health(both_of(once, test.run()), hosts);
  if (leader) {
    log::get("train").info("self test after step {}: {}", done, report.summary);
    // Where ranks take turns on a core the one that is off it looks slow.
    for (const std::string& slow : report.slow)
      if (!share_cores(facts)) log::get("train").warn("self test after step {}: {}", done, slow);
  }
  if (report.wrong.empty()) return;
  fail(ExitCode::communication,
       "self test after step {}: {}; leave that machine out and resume from a checkpoint of a time "
       "when it was known to be right (telemetry.health_minutes)",
       done, fmt::join(report.wrong, "; "));
}

Trainer::Services services_of(Engine& engine, StepRequests& requests,
                              const std::vector<std::string>& hosts, const RunFacts& facts,
                              Reporter* reporter) {
  TrainingParts& parts = engine.training();
  Trainer::Services services{.save =
                                 [&, reporter](std::int64_t done) {
                                   if (reporter != nullptr) reporter->exporters.flush();
                                   parts.checkpoints->save(done);
                                 },
                             .requests = &requests};
  services.copy = [&](std::int64_t done) { parts.checkpoints->save(done, SaveTo::memory); };
  if (parts.validation) services.evaluate = [&] { return parts.validation->run(); };
  services.samples = [&](std::int64_t step) { return samples_of(*parts.sampler, step); };
  if (parts.state->digests)
    services.digest = [&, reporter](std::int64_t done) {
      write_digests(*parts.state->digests, *engine.session().streams.compute, done, reporter);
    };
  if (parts.state->replicas) services.replicas = &*parts.state->replicas;
  if (parts.state->self_test) {
    services.self_test = [&](std::int64_t done) {
      test_ranks(*parts.state->self_test, hosts, facts, engine.session().world->rank() == 0, done);
    };
  }
  return services;
}

}  // namespace

bool run_training(const RankProcess& process, const Config& config,
                  const TrainingRequest& request) {
  // Before anything that takes time: a broken description of the machine ends the run here.
  const PlannedStep planned = process.mpi.rank() == 0 ? planned_step(config) : PlannedStep{};
  Engine engine(process, config);
  Session& session = engine.session();
  const StartingPoint start = engine.find_start(request.start);
  if (is_finished(session, start, request.until)) return true;
  if (process.mpi.rank() == 0) check_time_limit(config);
  const double seconds_before = process.mpi.rank() == 0 ? seconds_since_launch() : 0;
  StepRequests requests(request_options(config, process.mpi.rank() == 0, request.until));
  engine.begin([&] { return requests.flags(); }, energy_of_rank(process.mpi, config));
  TrainingParts& parts = engine.training();
  Checkpointing& checkpoints = *parts.checkpoints;
  const std::vector<std::string> hosts = gather_texts(*session.world, host_name());
  RunFacts facts = run_facts(config, most_crowded(*session.world));
  facts.hosts = static_cast<int>(std::set(hosts.begin(), hosts.end()).size());
  const std::unique_ptr<Reporter> reporter = open_reports(engine, start, facts, hosts, request);
  Trainer::Services services = services_of(engine, requests, hosts, facts, reporter.get());
  if (reporter)
    reporter->warn(
        config, hosts, [&](std::int64_t step) { return samples_of(*parts.sampler, step - 1); },
        [&] { return parts.batches->read_work().decoded_again; });
  Snapshots snapshots(engine, reporter.get());
  services.look = [&](std::int64_t done) { snapshots.take(done); };
  services.after_step = [&] {
    engine.check();
    if (reporter) keep_times(config, seconds_before, checkpoints, requests);
  };
  std::optional<StepTracer> tracer = tracer_of(session, start);
  if (tracer) services.tracer = &*tracer;
  BubbleMeter meter(parts.state->engine.runner());
  MetricsSink* const metrics = reporter ? &reporter->sinks : nullptr;
  RankLog* const ranks = reporter ? &reporter->ranks : nullptr;
  StepReports reports(session.mesh, metrics, ranks, request.split_times);
  TrainerOptions options =
      trainer_options(config, session.traits(), *parts.sampler, start.step(), facts);
  options.flops_per_item = planned.flops_per_item;
  options.peak_flops = planned.peak_flops;
  Trainer trainer(parts.state->engine, *parts.batches, options, {&reports, metrics, &meter},
                  services);
  const LoadMeter meter_of_load;
  trainer.run();
  const MachineLoad load = meter_of_load.read();
  reports.flush();
  parts.state->engine.settle();
  const bool stopped = trainer.stopped() != StopReason::none;
  if (!stopped) engine.verify_data();
  // The last state too, so that more steps can follow.
  if (!stopped && writes_checkpoints(config.checkpoint)) checkpoints.save(config.train.steps);
  checkpoints.finish();
  if (reporter) keep_times(config, seconds_before, checkpoints, requests);
  const BytesByRole held = log_memory_plan(session);
  if (reporter) write_memory(held, *reporter);
  if (!stopped) {
    if (planned.seconds) log_step_time(*planned.seconds, mean_step_seconds(trainer, config, start));
    engine.require_run();
    leave_results(engine, trainer, meter, facts, load, reporter.get());
  }
  if (request.split_times && reporter) write_time_split(reports, *reporter);
  checkpoints.require_saved();
  checkpoints.forget_memory();
  if (stopped) {
    session.world->barrier();
    if (reporter) {
      reporter->exporters.finish(RunEnd::stopped);
      log_stop_reason(trainer, config);
    }
  }
  return !stopped || trainer.stopped() == StopReason::reached;
}

}  // namespace trireme
