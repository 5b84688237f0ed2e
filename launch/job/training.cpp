// SPDX-License-Identifier: Apache-2.0
#include "launch/job/training.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>

#include "data/batch_plan.h"
#include "data/id_names.h"
#include "launch/job/libraries.h"
#include "launch/job/run_report.h"
#include "launch/job/run_results.h"
#include "launch/job/start_times.h"
#include "launch/plan/layout_plan.h"
#include "runtime/base/host_name.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/restore.h"
#include "runtime/checkpoint/run_state.h"
#include "runtime/comm/gather_texts.h"
#include "runtime/engine/agreement/host_sharing.h"
#include "runtime/engine/agreement/shared_inputs.h"
#include "runtime/engine/autotune.h"
#include "runtime/engine/options.h"
#include "runtime/engine/state/checkpointing.h"
#include "runtime/engine/state/data_record.h"
#include "runtime/train/step_requests.h"
#include "runtime/train/trainer.h"

namespace trireme {
namespace {

std::vector<std::int64_t> samples_of(const Sampler& sampler, std::int64_t step) {
  std::vector<std::int64_t> samples;
  for (std::int64_t slot = 0; slot < sampler.global_batch(); ++slot)
    samples.push_back(sampler.at(step, slot).sample);
  return samples;
}

StepRequestOptions request_options(const Config& config, bool leader) {
  const std::optional<StartTimes> earlier = last_start_times(config.run.directory);
  return {
      .leader = leader,
      .every_steps = config.checkpoint.every_steps,
      .every_minutes = config.checkpoint.every_minutes,
      .deadlines = deadlines_from(config.run.deadline_minutes, std::getenv("SLURM_JOB_END_TIME"),
                                  std::chrono::system_clock::now()),
      .earlier_save_seconds = earlier ? std::optional(earlier->save) : std::nullopt};
}

// Before the run begins; on rank 0, which has the clock.
void check_time_limit(const Config& config) {
  const auto limit = allocation_seconds();
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

void say_why_it_stopped(const Trainer& trainer, const Config& config) {
  log::get("train").warn(
      "stopped before step {}: {}; the same command goes on from the checkpoint in {}",
      config.train.steps, describe(trainer.stopped()), config.run.directory);
}

bool nothing_is_left(const Session& session, const StartingPoint& start) {
  const Config& config = session.config;
  if (!start.done(config.train.steps)) return false;
  if (session.world->rank() == 0) {
    log::get("train").info("{} has done {} of train.steps = {}: nothing is left to do",
                           config.run.directory, std::max(start.step(), start.finished),
                           config.train.steps);
  }
  return true;
}

// Agrees with the validation set in what ids and labels stand for. Collective.
std::unique_ptr<Dataset> open_training_data(const Session& session) {
  const Config& config = session.config;
  const std::string& validation = config.data.validation_path;
  require_data_on_all_hosts(*session.world, "data.path", config.data.path);
  require_data_on_all_hosts(*session.world, "data.validation_path", validation);
  auto dataset = open_dataset(config, session.traits, config.data.path, "train");
  require_same_data(*session.world, "data.path", config.data.path, *dataset);
  if (!validation.empty())
    require_same_ids(id_names_of(dataset->shards().front()), id_names_at(validation, "validation"));
  return dataset;
}

// What the first step begins with, but for a run that goes on, which restores its own later.
void set_initial_weights(Session& session, const StartingPoint& start) {
  const Config& config = session.config;
  ParamStore& params = session.model->params();
  Stream& stream = *session.streams.compute;
  params.initialize(stream, config.run.seed);
  const std::string& path = config.train.initial_weights;
  if (path.empty()) return;
  const int rank = session.world->rank();
  if (start.checkpoint) {
    if (rank == 0)
      log::get("train").info("train.initial_weights: {} is not read: the run goes on from {}", path,
                             start.checkpoint->path);
    return;
  }
  try {
    const RunState state = find_state(path, *session.world);
    const RestoreReport report =
        restore_weights(state.values(ValueKind::model), state.path, *session.device, stream,
                        session.placed_params(), params);
    if (rank == 0)
      log::get("train").info("weights of {}, {:.0f} MB read in {:.0f} ms", state.describe(),
                             1e-6 * static_cast<double>(report.bytes), report.milliseconds);
  } catch (const Error& error) {
    if (error.code() != ExitCode::checkpoint) throw;
    throw Error(error.code(), fmt::format("train.initial_weights: {}", error.what()));
  }
}

// Another job that owns the run directory ends this one before it looks at anything there.
RunOwner owner_of(const Session& session) {
  RunOwner owner(session.config.run.directory);
  if (session.world->rank() == 0) owner.take_if_there();
  return owner;
}

// Empty but on rank 0. From here on the run directory is written to; nobody goes on before it is
// known to be good.
std::optional<Reporter> open_reports(Session& session, const Dataset& dataset,
                                     const StartingPoint& start, const RunFacts& facts,
                                     const std::vector<std::string>& hosts,
                                     const TrainingRequest& request, RunOwner& owner) {
  const Config& config = session.config;
  std::optional<Reporter> reporter;
  if (session.world->rank() == 0) {
    RunDirectory::create(config.run.directory);
    owner.take();
    clear_the_way(config, start);
    std::optional<std::int64_t> done;
    if (start.again && !start.overwrite) done = start.step();
    reporter.emplace(
        config, request.requested,
        RunEnvironment{session.world->size(), hosts, library_versions(), request.command_line},
        session.traits, facts, done);
    keep_data_record(config.run.directory, dataset);
  }
  session.world->barrier();
  if (!reporter) log::keep_in(RunDirectory::log_in(config.run.directory));
  if (writes_checkpoints(config.checkpoint)) {
    require_shared_run_directory(*session.world, config.run.directory,
                                 config.run.directory + "/config.yaml");
  }
  return reporter;
}

double mean_step_seconds(const Trainer& trainer, const Config& config, const StartingPoint& start) {
  const auto steps = static_cast<double>(config.train.steps - start.step());
  return (trainer.wall_seconds() - trainer.evaluation_seconds()) / steps;
}

void log_step_time(double planned_seconds, double mean_seconds) {
  log::get("train").info("step time: predicted {:.1f} ms, measured {:.1f} ms on average",
                         1e3 * planned_seconds, 1e3 * mean_seconds);
}

// What was read while the run lasted, and its last look at the files.
void require_sound_data(PayloadWatch& watch, std::optional<ValidationPass>& validation) {
  if (const std::size_t verified = watch.finish(); verified < watch.shards()) {
    log::get("data").info("{} of this rank's {} shards were verified while the run lasted",
                          verified, watch.shards());
  }
  if (validation) static_cast<void>(validation->watch().finish());
}

// Collective.
void leave_results(Session& session, TrainingState& state, const Trainer& trainer,
                   const BubbleMeter& meter, const SlowRanks& slow,
                   const std::vector<std::string>& hosts, Reporter* reporter) {
  const Config& config = session.config;
  const std::uint64_t peak = peak_memory_of_any_rank(session);
  write_results(session, state, trainer.final_loss(), reporter);
  if (config.device.autotune != "off")
    tune_gemms(*session.world, *session.streams.compute, config.device.autotune);
  log_bubble(session, state.engine.runner(), meter);
  session.world->barrier();  // the last wait that has a deadline
  if (reporter == nullptr) return;
  reporter->console.finish({.totals = {},
                            .wall_seconds = trainer.wall_seconds(),
                            .evaluation_seconds = trainer.evaluation_seconds(),
                            .peak_memory_bytes = peak,
                            .slow = slow,
                            .hosts = hosts});
}

}  // namespace

bool run_training(const RankProcess& process, const Config& config,
                  const TrainingRequest& request) {
  // Before anything that takes time: a broken description of the machine ends the run here.
  const auto planned_seconds =
      process.mpi.rank() == 0 ? planned_step_seconds(config) : std::nullopt;
  Session session(process, config, /*training=*/true);
  const auto dataset = open_training_data(session);
  RunOwner owner = owner_of(session);
  const StartingPoint start = find_start(session, *dataset, request.start);
  if (nothing_is_left(session, start)) return true;
  const Communicator& group = session.mesh.data();
  const Sampler sampler(sampler_options(config, dataset->size()));
  StepOptions options = step_options(config, session.pipeline, session.traits);
  if (process.mpi.rank() == 0) check_time_limit(config);
  const double seconds_before = seconds_since_launch();
  StepRequests requests(request_options(config, process.mpi.rank() == 0));
  options.flags = [&] { return requests.flags(); };
  const BatchPlan plan =
      BatchPlan::training(sampler, config.train.micro_batch, group.rank(), group.size(),
                          start.step(), options.assignment == Assignment::strided);

  set_initial_weights(session, start);
  if (session.world->rank() == 0) log_start(session, *dataset);
  TrainingState state(session, options);
  StepEngine& engine = state.engine;
  log_memory(session, engine.optimizer());
  Checkpointing checkpoints(session, state, *dataset, start, owner);
  std::optional<ValidationPass> validation;
  if (!config.data.validation_path.empty()) {
    validation.emplace(session, engine.runner(), config.data.validation_path);
  }
  Loader loader(*session.device, *dataset, plan, training_loader_options(session));
  const std::vector<std::string> hosts = gather_texts(*session.world, host_name());
  const RunFacts facts = run_facts(config, most_crowded(*session.world));
  std::optional<Reporter> reporter =
      open_reports(session, *dataset, start, facts, hosts, request, owner);
  checkpoints.open(reporter ? &reporter->metrics : nullptr);
  PayloadWatch watch(*dataset, watch_of_rank(session));
  Trainer::Services services{.save = [&](std::int64_t done) { checkpoints.save(done); },
                             .after_step =
                                 [&] {
                                   watch.check();
                                   checkpoints.report();
                                   if (reporter)
                                     keep_times(config, seconds_before, checkpoints, requests);
                                 },
                             .requests = &requests};
  if (validation) services.evaluate = [&] { return validation->run(); };
  services.samples = [&](std::int64_t step) { return samples_of(sampler, step); };
  if (state.replicas) services.replicas = &*state.replicas;
  BubbleMeter meter(engine.runner());
  Console* const console = reporter ? &reporter->console : nullptr;
  MetricsLog* const metrics = reporter ? &reporter->metrics : nullptr;
  StepReports reports(session.mesh, console, metrics, request.split_times);
  Trainer trainer(engine, loader,
                  trainer_options(config, session.traits, sampler, start.step(), facts),
                  {&reports, console, metrics, &meter}, services);
  trainer.run();
  engine.settle();
  if (request.split_times && reporter) write_time_split(reports, *reporter);
  const bool stopped = trainer.stopped() != StopReason::none;
  if (!stopped) require_sound_data(watch, validation);
  // The last state too, so that more steps can follow.
  if (!stopped && writes_checkpoints(config.checkpoint)) checkpoints.save(config.train.steps);
  checkpoints.finish();
  if (reporter) keep_times(config, seconds_before, checkpoints, requests);
  log_memory_plan(session);
  if (stopped) {
    checkpoints.require_saved();
    session.world->barrier();
    if (reporter) say_why_it_stopped(trainer, config);
  } else {
    if (planned_seconds) log_step_time(*planned_seconds, mean_step_seconds(trainer, config, start));
    if (reporter) owner.require();
    leave_results(session, state, trainer, meter, reports.slow(), hosts,
                  reporter ? &*reporter : nullptr);
    checkpoints.require_saved();
  }
  return !stopped;
}

}  // namespace trireme
