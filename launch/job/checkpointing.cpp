// SPDX-License-Identifier: Apache-2.0
#include "launch/job/checkpointing.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "launch/job/data_record.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/directory.h"
#include "runtime/checkpoint/restore.h"
#include "runtime/telemetry/run_directory.h"

namespace trireme {
namespace {

using json = nlohmann::ordered_json;

std::string checkpoints_of(const Config& config) {
  return config.run.directory + "/checkpoints";
}

std::string text_of(std::uint64_t fingerprint) {
  return fmt::format("{:016x}", fingerprint);
}

json config_values(const Config& config) {
  json values = json::object();
  for (const auto& [key, value] : values_by_key(config))
    values[key] = value;
  return values;
}

std::string state_text(const Config& config, const Dataset& dataset) {
  const json state = {
      {"version", version_text()},
      {"data", {{"samples", dataset.size()}, {"fingerprint", text_of(dataset.fingerprint())}}},
      {"config", config_values(config)}};
  return state.dump(-1, ' ', false, json::error_handler_t::replace);
}

// These decide which sample stands where and every random number: another value is another run.
constexpr std::array fixed_keys = {"run.seed", "train.global_batch", "data.shuffle",
                                   "data.last_batch"};
// These are free to change: where and how the same computation is done and reported.
constexpr std::array free_sections = {"run.",        "parallel.", "device.",
                                      "checkpoint.", "comm.",     "telemetry."};
constexpr std::array free_keys = {
    "data.path",          "data.validation_path", "data.workers",
    "data.prefetch",      "train.micro_batch",    "train.eval_every",
    "train.eval_batches", "train.log_every",      "train.initial_weights"};

bool is_free(const std::string& key) {
  return std::ranges::find(free_keys, key) != free_keys.end() ||
         std::ranges::any_of(free_sections, [&](const char* s) { return key.starts_with(s); });
}

void compare_configs(const FoundCheckpoint& found, const json& before, const Config& config) {
  std::string differences, free_differences;
  for (const auto& [key, value] : values_by_key(config)) {
    if (!before.contains(key) || before[key] == value || key == "run.directory") continue;
    const std::string was = before[key].get<std::string>();
    if (std::ranges::find(fixed_keys, key) != fixed_keys.end()) {
      fail(ExitCode::config,
           "{}: is {} and was {} when {} was written; set it back, or start another run in "
           "another run.directory",
           key, value, was, found.path);
    }
    std::string& list = is_free(key) ? free_differences : differences;
    list += fmt::format("{} {}: {} (was {})", list.empty() ? "" : ";", key, value, was);
  }
  if (!free_differences.empty())
    log::get("checkpoint")
        .info(
            "going on with other settings than before, which do not change "
            "what is computed:{}",
            free_differences);
  if (!differences.empty())
    log::get("checkpoint").warn("going on with other settings than before:{}", differences);
}

void check_data(const FoundCheckpoint& found, const json& before, const Dataset& dataset) {
  const std::string was = before.at("fingerprint").get<std::string>();
  if (was == text_of(dataset.fingerprint())) return;
  fail(ExitCode::config,
       "data.path: its fingerprint is {} ({} samples), {} was written with data of {} ({} "
       "samples): the order of samples would not go on; use the same data, or start another run",
       text_of(dataset.fingerprint()), dataset.size(), found.path, was,
       before.at("samples").get<std::int64_t>());
}

}  // namespace

StartingPoint find_start(Session& session, const Dataset& dataset, bool fresh) {
  const Config& config = session.config;
  RunDirectory::refuse_a_file(config.run.directory);
  const std::string directory = checkpoints_of(config);
  if (fresh) {
    if (RunDirectory::contents(config.run.directory).run) {
      fail(ExitCode::config,
           "run.directory: {}: already holds a run, which --fresh does not overwrite; choose "
           "another run.directory or remove this one",
           config.run.directory);
    }
    return {};
  }
  StartingPoint start;
  start.checkpoint = find_newest_valid(directory, *session.world);
  if (!start.checkpoint) {
    if (!list_checkpoints(directory).empty()) {
      fail(ExitCode::checkpoint,
           "{}: none of its checkpoints verifies; see trireme checkpoint verify {}, or start "
           "another run in another run.directory",
           directory, config.run.directory);
    }
    return {};
  }
  const FoundCheckpoint& found = *start.checkpoint;
  try {
    const json state = json::parse(found.manifest.state);
    require_ids_of_run(config.run.directory, dataset);
    check_data(found, state.at("data"), dataset);
    compare_configs(found, state.at("config"), config);
  } catch (const json::exception& error) {
    fail(ExitCode::checkpoint, "{}: the state in its manifest is not a training run's: {}",
         found.path, error.what());
  }
  return start;
}

bool writes_checkpoints(const CheckpointConfig& config) {
  return config.every_steps > 0 || config.every_minutes > 0;
}

Checkpointing::Checkpointing(Session& session, const TrainingState& state, const Dataset& dataset,
                             const StartingPoint& start)
    : session_(session), state_(state), dataset_(dataset) {
  if (start.checkpoint) {
    const RestoreReport report =
        restore_checkpoint(*start.checkpoint, *session.device, *session.streams.compute,
                           session.placed_params(), state.checkpoint_values());
    restored_ = start.checkpoint->step;
    log::get("checkpoint")
        .info("going on after step {} from {}, {:.0f} MB read in {:.0f} ms", *restored_,
              start.checkpoint->path, 1e-6 * static_cast<double>(report.bytes),
              report.milliseconds);
  }
  // What is wrong with the directory shows now, not at the first save.
  if (writes_checkpoints(session.config.checkpoint)) static_cast<void>(saver());
}

CheckpointSaver& Checkpointing::saver() {
  if (!saver_) {
    const CheckpointConfig& config = session_.config.checkpoint;
    saver_.emplace(*session_.device, session_.mesh, session_.placed_params(),
                   state_.checkpoint_values(),
                   SaverOptions{.directory = checkpoints_of(session_.config),
                                .keep = config.keep,
                                .keep_every = config.keep_every,
                                .async = config.async});
    if (restored_) saver_->note_restored(*restored_);
  }
  return *saver_;
}

void Checkpointing::save(std::int64_t done) {
  saver().save(*session_.streams.compute, done, state_text(session_.config, dataset_));
  report();
}

void Checkpointing::report() {
  if (!saver_) return;
  const auto report = saver_->take_report();
  if (!report) return;
  if (!report->committed()) return note_failure(*report);
  failed_ = 0;
  longest_save_seconds_ =
      std::max(longest_save_seconds_,
               1e-3 * (report->stall_ms + report->copy_ms + report->write_ms + report->commit_ms));
  if (session_.world->rank() != 0) return;
  log::get("checkpoint")
      .info(
          "step {}: {} ({:.1f} MB of this rank; training stood {:.1f} ms, copying took {:.1f} "
          "ms, written in {:.0f} ms, committed in {:.0f} ms)",
          report->step, report->path, 1e-6 * static_cast<double>(report->bytes), report->stall_ms,
          report->copy_ms, report->write_ms, report->commit_ms);
}

// The report is the same on all ranks.
void Checkpointing::note_failure(const SaveReport& report) {
  ++failed_;
  problem_ = fmt::format("step {}: {}", report.step, report.problem);
  if (metrics_ != nullptr)
    metrics_->failed_save({report.step, report.problem, failed_, std::chrono::system_clock::now()});
  const std::int64_t limit = session_.config.checkpoint.failed_limit;
  if (failed_ < limit) return;
  fail(
      unsaved_exit,
      "checkpoint.failed_limit: {} save(s) in a row failed, the last of {}; the run ends before "
      "more work is lost; once checkpoints can be written the same command goes on from the newest",
      failed_, problem_);
}

void Checkpointing::require_saved() const {
  if (failed_ == 0) return;
  fail(unsaved_exit, "the last checkpoint of the run could not be written: {}", problem_);
}

void Checkpointing::finish() {
  if (!saver_) return;
  saver_->finish();
  report();
}

}  // namespace trireme
