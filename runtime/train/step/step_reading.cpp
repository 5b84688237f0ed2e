// SPDX-License-Identifier: Apache-2.0
// A step's measurements, read while the next one runs.
#include <algorithm>
#include <cmath>

#include "runtime/comm/watchdog/step_watch.h"
#include "runtime/train/step/step_engine.h"

namespace trireme {
namespace {

// `times` has forward, backward and optimizer including `stalls`, and data waits as the loader
// counted them.
void share_out(Times& times, const StallClock::Milliseconds& stalls, const CoreTimes& core) {
  using enum TimePart;
  const double stalled = stalls.forward + stalls.backward + stalls.update;
  const double passes = times[forward] + times[backward] + times[optimizer] - stalled;
  const double idle = times[step] - times[forward] - times[backward] - times[bubble] -
                      times[reduce_wait] - times[optimizer];
  const StandstillTimes still{
      .stalls = stalled,
      .reduce = times[reduce_wait],
      .bubble = times[bubble],
      // If the host runs ahead of the device, it may hide part of the data wait.
      .data = std::max(0.0, std::min(idle, times[data_wait]))};
  const LackOfCores lack = lack_of_cores(times[step], still, core);
  const double waited = stalled > 0 ? 1 - lack.stalls / stalled : 1.0;
  const double gap = times[period] - times[step];
  times[before_reduce] = times[step] - times[reduce_wait] - times[optimizer];
  // Messages that wait for one of this rank's cores delay the others as its work does.
  times[comm_wait] = times[reduce_wait] + stalled - lack.messages();
  times[data_wait] = still.data - lack.data;
  times[forward] -= stalls.forward;
  times[backward] -= stalls.backward;
  times[optimizer] -= stalls.update;
  times[reduce_wait] -= lack.reduce;
  times[tensor_comm] = waited * (stalled - stalls.gathers - stalls.experts - stalls.update_sums);
  times[gather_comm] = waited * stalls.gathers;
  times[expert_comm] = waited * stalls.experts;
  times[checkpoint] = std::min(times[checkpoint], gap);
  times[evaluation] = std::min(times[evaluation], gap - times[checkpoint]);
  times[between_core_wait] =
      std::clamp(core.between, 0.0, std::max(0.0, gap - times[checkpoint] - times[evaluation]));
  times[core_wait] = lack.work + lack.messages() + lack.data + times[between_core_wait];
  times[comm_core_wait] = lack.messages();
  // Outside of passes the thread computes little but wakes often: waits are attributed there first.
  const double other_work = std::max(0.0, times[step] - still.sum() - passes);
  times[other_core_wait] = times[core_wait] - std::max(0.0, lack.work - other_work);
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
  report.own = times_of(step, slot);
  for (StepMeter* const meter : options_.meters)
    meter->read(report);
  last_read_ = {step, report.own};
  if (options_.flags) {
    slot.exchange.read();
    report.flags = slot.exchange.flags();
    report.timed = slot.exchange.timed();
    report.by_rank = slot.exchange.times();
  }
  return report;
}

// All collectives, but not messages between pipeline neighbours. A gather still running at the end
// of a step counts for the next.
double StepEngine::message_wait_seconds() const {
  double sum = 0;
  for (const Communicator* const group :
       {&mesh_.data(), &mesh_.tensor(), &mesh_.model(), &mesh_.context()})
    sum += group->stats().waiting_seconds;
  for (const Communicator* const group : {&mesh_.zero(), &mesh_.replicas(), &mesh_.gather()})
    if (group != &mesh_.data()) sum += group->stats().waiting_seconds;
  if (mesh_.shape().expert == 1) return sum;
  for (const Communicator* const group :
       {&mesh_.experts(), &mesh_.expert_zero(), &mesh_.expert_replicas(), &mesh_.expert_gather()})
    sum += group->stats().waiting_seconds;
  return sum;
}

RankStep StepEngine::times_of(std::int64_t step, const Slot& slot) const {
  RankStep own{.times = slot.times};
  Times& times = own.times;
  times[TimePart::step] = slot.updated->milliseconds_since(*slot.start);
  times[TimePart::period] = times[TimePart::step] +
                            (slot.follows ? slot.start->milliseconds_since(end_of(step - 1)) : 0.0);
  const StageTimes passes = runner_.times(step);
  times[TimePart::forward] = passes.forward;
  times[TimePart::backward] = passes.backward + passes.backward_weight;
  times[TimePart::bubble] = options_.pipeline.stages > 1 ? passes.bubble : 0;
  times[TimePart::reduce_wait] = slot.reduce_end->milliseconds_since(*slot.reduce_begin);
  times[TimePart::reduce] = reducer_.milliseconds(step);
  times[TimePart::optimizer] = slot.updated->milliseconds_since(*slot.reduce_end);
  times[TimePart::micro_batches] = options_.pipeline.micro_batches;
  share_out(times, streams_.stalls.milliseconds(step), slot.core);
  own.experts = slot.experts;
  if (expert_meter_) own.experts.milliseconds = expert_meter_->work.milliseconds(step);
  return own;
}

void StepEngine::read_loss_scale(const Slot& slot, StepReport& report) const {
  if (!scaler_) return;
  const auto* const before = reinterpret_cast<const float*>(slot.scale_host.data());
  const float scale = before[ops::LossScaleState::scale];
  const bool skipped = !std::isfinite(report.grad_norm);
  report.loss_scale = static_cast<double>(scale);
  report.skipped_steps =
      static_cast<std::int64_t>(before[ops::LossScaleState::skipped_steps]) + (skipped ? 1 : 0);
  report.overflowed = skipped && std::isfinite(report.loss) && scale > scaler_->options().minimum;
}

}  // namespace trireme
