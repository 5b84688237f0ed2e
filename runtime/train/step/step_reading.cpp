// SPDX-License-Identifier: Apache-2.0
// What a step measured, read while the next one runs.
#include <algorithm>
#include <cmath>

#include "runtime/base/test_hooks.h"
#include "runtime/comm/watchdog/step_watch.h"
#include "runtime/train/step/step_engine.h"

namespace trireme {
namespace {

// Of a step: where it is less, nobody will be told of it.
constexpr double telling_wait = 0.05;

RankStep own_times(const StepReport& report, bool on_cpu) {
  const double stalls = report.forward_stall_ms + report.backward_stall_ms + report.update_stall_ms;
  const double passes = report.forward_ms + report.backward_ms + report.optimizer_ms - stalls;
  const double idle = report.step_ms - report.forward_ms - report.backward_ms - report.bubble_ms -
                      report.exposed_comm_ms - report.optimizer_ms;
  const StandstillTimes still{
      .stalls = stalls,
      .reduce = report.exposed_comm_ms,
      .bubble = report.bubble_ms,
      // Where the host runs ahead of the device, waiting for data may cost it less.
      .data = std::max(0.0, std::min(idle, report.data_wait_ms))};
  const LackOfCores lack =
      on_cpu ? lack_of_cores(report.step_ms, still, report.core) : LackOfCores{};
  const double stalled = stalls > 0 ? 1 - lack.stalls / stalls : 1.0;
  RankStep own{.period = report.gap_ms + report.step_ms,
               .step = report.step_ms,
               .before_reduce = report.step_ms - report.exposed_comm_ms - report.optimizer_ms,
               // Messages that wait for a core of this rank's hold up the others as its work does.
               .comm_wait = report.exposed_comm_ms + stalls - lack.messages(),
               .bubble = report.bubble_ms,
               .data_wait = still.data - lack.data,
               .forward = report.forward_ms - report.forward_stall_ms,
               .backward = report.backward_ms - report.backward_stall_ms,
               .optimizer = report.optimizer_ms - report.update_stall_ms,
               .reduce = report.reduce_ms,
               .reduce_wait = report.exposed_comm_ms - lack.reduce,
               .tensor_wait = stalled * report.tensor_stall_ms,
               .gather_wait = stalled * report.gather_stall_ms,
               .message_wait = report.message_wait_ms,
               .checkpoint = std::min(report.pause.checkpoint, report.gap_ms),
               .evaluation = 0};
  own.evaluation = std::min(report.pause.evaluation, report.gap_ms - own.checkpoint);
  own.between_core_wait = std::clamp(
      report.core.between, 0.0, std::max(0.0, report.gap_ms - own.checkpoint - own.evaluation));
  own.core_wait = lack.work + lack.messages() + lack.data + own.between_core_wait;
  own.comm_core_wait = lack.messages();
  // Outside of passes the thread hardly works but is woken often: waits are looked for there first.
  const double other_work = std::max(0.0, report.step_ms - still.sum() - passes);
  own.other_core_wait = own.core_wait - std::max(0.0, lack.work - other_work);
  return own;
}

}  // namespace

StepReport StepEngine::read(std::int64_t step) {
  Slot& slot = slot_of(step);
  set_activity("waiting for the GPU or other ranks");
  slot.updated->synchronize();
  set_activity("report");
  StepReport report{.step = step, .learning_rate = options_.schedule.at(step)};
  const LossTotals::Values totals = slot.totals.read();
  report.loss = totals.loss / totals.divisor();
  report.targets = static_cast<std::int64_t>(totals.targets);
  report.grad_norm = static_cast<double>(*reinterpret_cast<const float*>(slot.norm_host.data()));
  read_loss_scale(slot, report);
  report.judgement = judgement_of(slot.guard_host);
  if (slot.noisy) report.noise = NoiseMeter::reading_of(slot.noise_host);
  if (options_.digests != nullptr)
    report.weight_digest = *reinterpret_cast<const std::uint64_t*>(slot.digest_host.data());
  read_times(step, slot, report);
  last_read_ = {step, report.own};
  if (options_.flags) {
    slot.exchange.read();
    report.flags = slot.exchange.flags();
    report.timed = slot.exchange.timed();
    report.by_rank = slot.exchange.times();
  }
  return report;
}

void StepEngine::read_times(std::int64_t step, Slot& slot, StepReport& report) const {
  report.step_ms = slot.updated->milliseconds_since(*slot.start);
  if (slot.follows) report.gap_ms = slot.start->milliseconds_since(end_of(step - 1));
  const StageTimes times = runner_.times(step);
  report.forward_ms = times.forward;
  report.backward_ms = times.backward + times.backward_weight;
  report.bubble_ms = options_.pipeline.stages > 1 ? times.bubble : 0;
  report.exposed_comm_ms = slot.reduce_end->milliseconds_since(*slot.reduce_begin);
  report.reduce_ms = reducer_.milliseconds(step);
  const StallClock::Milliseconds stalls = streams_.stalls.milliseconds(step);
  report.forward_stall_ms = stalls.forward;
  report.backward_stall_ms = stalls.backward;
  report.update_stall_ms = stalls.update;
  report.tensor_stall_ms =
      stalls.forward + stalls.backward + stalls.update - stalls.gathers - stalls.update_sums;
  report.gather_stall_ms = stalls.gathers;
  report.optimizer_ms = slot.updated->milliseconds_since(*slot.reduce_end);
  report.data_wait_ms = slot.data_wait_ms;
  report.core = slot.core;
  report.message_wait_ms = slot.message_wait_ms;
  report.pause = slot.pause;
  report.own = own_times(report, device_.type() == DeviceType::cpu);
  if (options_.joules && !test_rests(step + 1)) report.own.joules = options_.joules();
  report.own.micro_batches = options_.pipeline.micro_batches;
  report.own.digest = ToldBits(report.weight_digest.value_or(0));
  if (!options_.slow_file || report.own.data_wait <= telling_wait * report.own.period) return;
  const FileReads reads = options_.slow_file();
  report.own.slow_file = ToldBits(reads.file);
  report.own.read_seconds = reads.seconds;
  report.own.read_bytes = reads.bytes;
}

void StepEngine::read_loss_scale(const Slot& slot, StepReport& report) const {
  const LossScaler* const scaler = optimizer_.loss_scaler();
  if (scaler == nullptr) return;
  const auto* const before = reinterpret_cast<const float*>(slot.scale_host.data());
  const float scale = before[ops::LossScaleState::scale];
  const bool skipped = !std::isfinite(report.grad_norm);
  report.loss_scale = static_cast<double>(scale);
  report.skipped_steps =
      static_cast<std::int64_t>(before[ops::LossScaleState::skipped_steps]) + (skipped ? 1 : 0);
  report.overflowed = skipped && std::isfinite(report.loss) && scale > scaler->options().minimum;
}

}  // namespace trireme
