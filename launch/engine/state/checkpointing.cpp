// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/state/checkpointing.h"

#include <algorithm>
#include <chrono>

#include "runtime/base/log.h"
#include "runtime/checkpoint/restore/restore.h"
#include "runtime/comm/same_on_all_ranks.h"
#include "runtime/telemetry/run_directory.h"

namespace trireme {

bool writes_checkpoints(const CheckpointConfig& config) {
  return config.every_steps > 0 || config.every_minutes > 0 || config.in_memory_every_steps > 0 ||
         !config.keep_best.empty();
}

Checkpointing::Checkpointing(Session& session, const TrainingState& state, const Dataset& dataset,
                             const StartingPoint& start, const RunOwner& owner)
    : session_(session), state_(state), dataset_(dataset), owner_(owner) {
  best_.metric = session.config.checkpoint.keep_best;
  if (start.checkpoint) {
    best_ = best_in(start.checkpoint->manifest, best_.metric);
    const RestoreReport report =
        restore_checkpoint(*start.checkpoint, *session.device, *session.streams.compute,
                           session.placed_params(), state.checkpoint_values());
    restored_ = start.checkpoint->step;
    log::get("checkpoint")
        .info("going on after step {} from {}, {:.0f} MB read in {:.0f} ms", *restored_,
              start.checkpoint->path, 1e-6 * static_cast<double>(report.bytes),
              report.milliseconds);
  }
  // Before training, so that its memory is checked too.
  if (writes_checkpoints(session.config.checkpoint)) make_saver();
}

void Checkpointing::open(MetricsSink* metrics) {
  metrics_ = metrics;
  epoch_ = std::stoll(broadcast_text(*session_.world, fmt::format("{}", owner_.epoch()), 0));
  if (!saver_) return;
  saver_->set_epoch(epoch_);
  saver_->prepare();
}

void Checkpointing::make_saver() {
  const CheckpointConfig& config = session_.config.checkpoint;
  saver_.emplace(
      *session_.device, session_.mesh, session_.placed_params(), state_.checkpoint_values(),
      SaverOptions{.directory = RunDirectory::checkpoints_in(session_.config.run.directory),
                   .keep = config.keep,
                   .keep_every = config.keep_every,
                   .async = config.async,
                   .epoch = epoch_,
                   .memory = config.in_memory_every_steps > 0
                                 ? std::optional(MemoryPlace{config.memory_directory})
                                 : std::nullopt,
                   .may_commit = [this] { owner_.require(); }});
  if (restored_) saver_->note_restored(*restored_);
  saver_->keep_best(best_.step);
}

void Checkpointing::note_best(const BestEvaluation& best) {
  best_ = best;
  saver().keep_best(best.step);
}

CheckpointSaver& Checkpointing::saver() {
  if (!saver_) make_saver();
  return *saver_;
}

void Checkpointing::save(std::int64_t done, SaveTo to) {
  trained_ = done >= session_.config.train.steps || reached_;
  saver().save(*session_.streams.compute, done,
               state_text(session_.config, dataset_, epoch_, reached_, best_), to);
  report();
}

void Checkpointing::report() {
  if (!saver_) return;
  const auto report = saver_->take_report();
  if (!report) return;
  if (report->non_finite())
    fail(ExitCode::non_finite,
         "step {}: no checkpoint, because {}; those before it are kept; use a lower "
         "optimizer.learning_rate or train.clip_norm",
         report->step, report->problem);
  if (report->in_memory) return note_copy(*report);
  if (!report->committed()) return note_failure(*report);
  failed_ = 0;
  longest_save_seconds_ =
      std::max(longest_save_seconds_,
               1e-3 * (report->stall_ms + report->copy_ms + report->write_ms + report->commit_ms));
  if (session_.world->rank() != 0) return;
  if (metrics_ != nullptr)
    metrics_->saved({.step = report->step,
                     .path = report->path,
                     .bytes = report->bytes,
                     .seconds = 1e-3 * (report->copy_ms + report->write_ms + report->commit_ms),
                     .stall_ms = report->stall_ms,
                     .time = std::chrono::system_clock::now()});
  log::get("checkpoint")
      .info(
          "step {}: {} ({:.1f} MB of this rank; training stood {:.1f} ms, copying took {:.1f} "
          "ms, written in {:.0f} ms, committed in {:.0f} ms)",
          report->step, report->path, 1e-6 * static_cast<double>(report->bytes), report->stall_ms,
          report->copy_ms, report->write_ms, report->commit_ms);
}

// The disk's state is unaffected, and the next copy to memory comes soon: no reason to end.
void Checkpointing::note_copy(const SaveReport& report) const {
  if (session_.world->rank() != 0) return;
  if (!report.committed()) {
    log::get("checkpoint").warn("step {}: no copy in memory: {}", report.step, report.problem);
    return;
  }
  log::get("checkpoint")
      .debug(
          "step {}: copied to memory ({:.1f} MB of this rank; training stood {:.1f} ms, written "
          "in {:.0f} ms, exchanged in {:.0f} ms)",
          report.step, 1e-6 * static_cast<double>(report.bytes), report.stall_ms, report.write_ms,
          report.commit_ms);
}

// The report is equal on all ranks.
void Checkpointing::note_failure(const SaveReport& report) {
  if (session_.world->rank() == 0) owner_.require();  // nothing more to try
  ++failed_;
  problem_ = fmt::format("step {}: {}", report.step, report.problem);
  if (metrics_ != nullptr)
    metrics_->failed_save({report.step, report.problem, failed_, std::chrono::system_clock::now()});
  const std::int64_t limit = session_.config.checkpoint.failed_limit;
  if (failed_ < limit || trained_) return;
  fail(unsaved_exit,
       "checkpoint.failed_limit: {} save(s) in a row failed, the last of {}; the run ends before "
       "more work is lost; when checkpoints can be written again, the same command resumes from "
       "the newest",
       failed_, problem_);
}

void Checkpointing::require_saved() const {
  if (failed_ == 0) return;
  fail(unsaved_exit, "the last checkpoint of the run could not be written: {}{}", problem_,
       trained_ ? "; all steps are done, and only more of them would need it" : "");
}

void Checkpointing::forget_memory() noexcept {
  if (saver_) saver_->forget_memory();
}

void Checkpointing::finish() {
  if (!saver_) return;
  saver_->finish();
  report();
}

}  // namespace trireme
