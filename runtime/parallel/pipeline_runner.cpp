// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/pipeline_runner.h"

#include "runtime/comm/watchdog/step_watch.h"
#include "runtime/device/cpu/stream_core.h"
#include "runtime/device/trace/trace_log.h"

namespace trireme {
namespace {

std::string_view activity_of(ActionKind computation) {
  if (computation == ActionKind::forward) return "forward";
  return computation == ActionKind::backward ? "backward" : "weight gradient";
}

}  // namespace

PipelineRunner::PipelineRunner(Device& device, Model& model, Communicator& pipeline,
                               Stream& compute, const ScheduleShape& shape)
    : model_(model),
      compute_(compute),
      shape_(shape),
      stage_(pipeline.rank()),
      links_(device, pipeline, shape) {
  // A receive's tasks on its stream: wait for its slot, a message for each block, event.
  const auto tasks = static_cast<std::size_t>(receives_ahead * (model.blocks() + 2));
  TRIREME_EXPECTS(shape.stages == 1 || tasks <= StreamCore::capacity,
                  "{} blocks of sequences on a pipeline stage, expected at most {}", model.blocks(),
                  StreamCore::capacity / receives_ahead - 2);
  for (int chunk = 0; chunk < shape.chunks; ++chunk) {
    TRIREME_EXPECTS(model.slots(chunk) >= slots(shape, stage_, chunk),
                    "chunk {} has {} slots, the schedule needs {}", chunk, model.slots(chunk),
                    slots(shape, stage_, chunk));
    auto& of_chunk = slots_.emplace_back(static_cast<std::size_t>(model.slots(chunk)));
    for (SlotEvents& events : of_chunk) {
      for (auto* event : {&events.freed, &events.input, &events.gradient, &events.output,
                          &events.dinput, &events.sent})
        *event = device.make_event();
    }
  }
  plans_[0] = plans_[1] = plan_of(shape.micro_batches);
  for (auto& parity : times_) {
    for (std::size_t i = 0; i < plans_[0].computations; ++i) {
      ActionTimes& times = parity.emplace_back();
      for (auto* event : {&times.begin, &times.ready, &times.end})
        *event = device.make_event(EventKind::timed);
    }
  }
}

PipelineRunner::Plan PipelineRunner::plan_of(int micro_batches) const {
  ScheduleShape shape = shape_;
  shape.micro_batches = micro_batches;
  Plan plan{.micro_batches = micro_batches, .actions = stage_actions(shape, stage_)};
  for (const Action& action : plan.actions)
    plan.computations += is_compute(action.kind) ? 1 : 0;
  return plan;
}

PipelineRunner::SlotEvents& PipelineRunner::slot(const Action& action) {
  auto& of_chunk = slots_[static_cast<std::size_t>(action.chunk)];
  return of_chunk[static_cast<std::size_t>(action.micro_batch) % of_chunk.size()];
}

// Whether a computation reads a neighbour stage's message.
bool PipelineRunner::receives(const Action& action) const {
  const int at = virtual_stage(shape_, stage_, action.chunk);
  if (action.kind == ActionKind::forward) return at > 0;
  if (action.kind == ActionKind::backward) return at + 1 < virtual_stages(shape_);
  return false;
}

void PipelineRunner::run(std::int64_t step, int micro_batches, StageWork& work) {
  Plan& plan = plans_[step % 2];
  if (plan.micro_batches != micro_batches) plan = plan_of(micro_batches);
  std::size_t computed = 0;
  for (const Action& action : plan.actions) {
    if (is_compute(action.kind)) {
      compute(action, times_[step % 2][computed++], work);
    } else {
      transfer(action, work);
    }
  }
}

void PipelineRunner::compute(const Action& action, ActionTimes& times, StageWork& work) {
  SlotEvents& events = slot(action);
  set_activity("waiting for data", action.chunk, action.micro_batch);
  work.prepare(action);
  set_activity(activity_of(action.kind), action.chunk, action.micro_batch);
  compute_.record(*times.begin);
  if (receives(action)) {
    const bool forward = action.kind == ActionKind::forward;
    const TraceSpan span(TraceKind::wait, compute_,
                         forward ? "wait for the activation" : "wait for the gradient");
    compute_.wait(forward ? *events.input : *events.gradient);
  }
  compute_.record(*times.ready);
  work.compute(action);
  compute_.record(*times.end);
  if (action.kind == ActionKind::forward) compute_.record(*events.output);
  if (action.kind == ActionKind::backward) compute_.record(*events.dinput);
  if (action.kind == last_use(shape_.kind)) compute_.record(*events.freed);
}

void PipelineRunner::transfer(const Action& action, StageWork& work) {
  SlotEvents& events = slot(action);
  Stream& channel = links_.stream(action.kind);
  const Context context = work.context(action.chunk, action.micro_batch);
  const auto move = [&](auto tensor_of) {
    for (int block = 0; block < model_.blocks(); ++block)
      links_.start(action, (model_.*tensor_of)(model_.block(context, block)));
  };
  switch (action.kind) {
    case ActionKind::recv_forward:
      channel.wait(*events.freed);
      channel.wait(*events.sent);
      move(&Model::input);
      channel.record(*events.input);
      break;
    case ActionKind::recv_backward:
      // The slot's previous gradient was read before its forward ran again.
      channel.wait(*events.output);
      move(&Model::output_gradient);
      channel.record(*events.gradient);
      break;
    case ActionKind::send_forward:
      channel.wait(*events.output);
      move(&Model::output);
      break;
    case ActionKind::send_backward:
      channel.wait(*events.dinput);
      move(&Model::input_gradient);
      channel.record(*events.sent);
      break;
    default:
      break;
  }
}

void PipelineRunner::forward_only(int micro_batch, StageWork& work) {
  for (int chunk = 0; chunk < shape_.chunks; ++chunk) {
    const Action forward{ActionKind::forward, chunk, micro_batch};
    set_activity("evaluation", chunk, micro_batch);
    SlotEvents& events = slot(forward);
    const int at = virtual_stage(shape_, stage_, chunk);
    if (at > 0) {
      transfer({ActionKind::recv_forward, chunk, micro_batch}, work);
      compute_.wait(*events.input);
    }
    // The last message from this slot must be sent before it is overwritten.
    compute_.wait(*events.sent);
    work.compute(forward);
    compute_.record(*events.output);
    compute_.record(*events.freed);
    if (at + 1 < virtual_stages(shape_)) {
      transfer({ActionKind::send_forward, chunk, micro_batch}, work);
      links_.stream(ActionKind::send_forward).record(*events.sent);
    }
  }
}

double PipelineRunner::span_ms(std::int64_t step) const {
  const auto& computed = times_[step % 2];
  const std::size_t last = plans_[step % 2].computations - 1;
  return computed[last].end->milliseconds_since(*computed.front().ready);
}

StageTimes PipelineRunner::times(std::int64_t step) const {
  StageTimes sum;
  for (int chunk = 0; chunk < shape_.chunks; ++chunk) {
    const StageTimes part = times(step, chunk);
    sum.forward += part.forward;
    sum.backward += part.backward;
    sum.backward_weight += part.backward_weight;
    sum.bubble += part.bubble;
  }
  return sum;
}

StageTimes PipelineRunner::times(std::int64_t step, int chunk) const {
  StageTimes sum;
  std::size_t computed = 0;
  for (const Action& action : plans_[step % 2].actions) {
    if (!is_compute(action.kind)) continue;
    const ActionTimes& times = times_[step % 2][computed++];
    if (action.chunk != chunk) continue;
    const double took = times.end->milliseconds_since(*times.ready);
    if (action.kind == ActionKind::forward) sum.forward += took;
    if (action.kind == ActionKind::backward) sum.backward += took;
    if (action.kind == ActionKind::backward_weight) sum.backward_weight += took;
    sum.bubble += times.ready->milliseconds_since(*times.begin);
  }
  return sum;
}

}  // namespace trireme
