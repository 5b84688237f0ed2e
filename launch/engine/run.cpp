// SPDX-License-Identifier: Apache-2.0
// Engine::run(): a whole run, from its start point to its last checkpoint.
#include <algorithm>
#include <set>

#include "launch/engine/engine.h"
#include "launch/engine/options.h"
#include "launch/engine/state/start_times.h"
#include "launch/engine/trainer.h"
#include "runtime/base/environment.h"
#include "runtime/base/log.h"
#include "runtime/comm/same_on_all_ranks.h"
#include "runtime/telemetry/run_directory.h"

namespace trireme {
namespace {

// Rank 0 is the leader: its clock counts.
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
          .earlier_save_seconds = earlier ? std::optional(earlier->save) : std::nullopt,
          .seconds_before = leader ? seconds_since_launch() : 0};
}

// On rank 0, before the run begins.
void check_time_limit(const Config& config) {
  const auto limit = allocation_times().whole;
  const auto times = last_start_times(config.run.directory);
  if (limit && times) require_enough_time(*times, *limit, config.run.directory);
}

void log_stop_reason(StopReason stopped, const Config& config) {
  if (stopped == StopReason::reached) {
    log::get("train").info("stopped at {}; a command without it resumes from the checkpoint in {}",
                           describe(stopped), config.run.directory);
    return;
  }
  log::get("train").warn(
      "stopped before step {}: {}; the same command resumes from the checkpoint in {}",
      config.train.steps, describe(stopped), config.run.directory);
}

}  // namespace

bool Engine::is_finished(RunObserver& observer, std::int64_t until) const {
  const Config& config = session_.config;
  const StartingPoint& start = *start_;
  const bool leader = session_.world->rank() == 0;
  if (!start.done(config.train.steps)) {
    if (until == 0 || start.step() < until) return false;
    if (leader)
      log::get("train").info("{} has done {} steps, and --until is {}: nothing is left to do",
                             config.run.directory, start.step(), until);
    return true;
  }
  if (start.lacks_weights) observer.weights_missing(*start.checkpoint);
  if (leader && start.reached) {
    log::get("train").info("{} stopped: {} at step {} ({}): nothing is left to do",
                           config.run.directory, describe(config.train.stop_at, *start.reached),
                           std::max(start.step(), start.finished), start.reached->key());
  } else if (leader) {
    log::get("train").info("{} has done {} of train.steps = {}: nothing is left to do",
                           config.run.directory, std::max(start.step(), start.finished),
                           config.train.steps);
  }
  return true;
}

TrainingStart Engine::run_start() const {
  TrainingStart start{.config = session_.config,
                      .again = start_ && start_->again && !start_->overwrite,
                      .done = steps_done(),
                      .hosts = gather_texts(*session_.world, host_name()),
                      .facts = run_facts(session_.config, most_crowded(*session_.world)),
                      .data_opened = data_opened_};
  start.facts.hosts = static_cast<int>(std::set(start.hosts.begin(), start.hosts.end()).size());
  return start;
}

StopReason Engine::run(RunObserver& observer, const RunRequest& request) {
  TRIREME_EXPECTS(!training_.state && !session_.dry, "an engine on which nothing has begun");
  const Config& config = session_.config;
  const bool leader = session_.world->rank() == 0;
  if (reads_data()) {
    if (!start_) find_start(request.start);
    if (is_finished(observer, request.until)) return StopReason::none;
    if (leader) check_time_limit(config);
  }
  requests_.emplace(request_options(config, leader, request.until));
  begin();
  const TrainingStart start = run_start();
  const RunSinks sinks = reads_data() ? open_run(observer, start) : RunSinks{};
  observer.begin();
  Trainer trainer(*this, observer, *requests_, start, sinks);
  const LoadMeter meter;
  trainer.run();
  TrainingEnd ending = trainer.ending();
  ending.load = meter.read();
  end_steps(ending.stopped == StopReason::none);
  trainer.keep_times();
  log_memory_use(*session_.world, *session_.device, *need_);
  ending.memory = log_memory_plan(session_, need_->held);
  observer.end(ending);
  require_saved();
  if (ending.stopped == StopReason::none) {
    note_end();
    return ending.stopped;
  }
  session_.world->barrier();
  if (leader) log_stop_reason(ending.stopped, config);
  return ending.stopped;
}

}  // namespace trireme
