// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/step_engine.h"

namespace trireme {
namespace {

constexpr std::size_t rng_bytes = 2 * sizeof(std::uint64_t);  // seed, step

}  // namespace

StepEngine::Slot::Slot(Device& device, int micro_batches)
    : totals(device),
      norm_host(device, sizeof(float), MemoryKind::host),
      rng(device, rng_bytes, MemoryKind::device),
      rng_host(device, rng_bytes, MemoryKind::host),
      start(device.make_event()),
      updated(device.make_event()),
      reduce_begin(device.make_event()),
      reduce_end(device.make_event()) {
  for (int i = 0; i < micro_batches; ++i) {
    forward_begin.push_back(device.make_event());
    backward_begin.push_back(device.make_event());
    backward_end.push_back(device.make_event());
  }
}

StepEngine::StepEngine(Device& device, Model& model, Communicator& group, Streams& streams,
                       const StepOptions& options)
    : device_(device),
      model_(model),
      group_(group),
      streams_(streams),
      options_(options),
      reducer_(device, group, model.params(), *streams.compute, *streams.comm, options.reducer,
               options.bucket_bytes),
      optimizer_(device, model.params(), options.optimizer, options.clip_norm) {
  for (auto& slot : slots_)
    slot = std::make_unique<Slot>(device, options.local_micro_batches);
}

std::int64_t StepEngine::targets_per_step() const {
  return model_.head().targets * options_.global_micro_batches;
}

void StepEngine::run(std::int64_t step, BatchSource& source) {
  Slot& slot = slot_of(step);
  Stream& compute = *streams_.compute;
  compute.record(*slot.start);
  auto* const rng = reinterpret_cast<std::uint64_t*>(slot.rng_host.data());
  rng[0] = options_.seed;
  rng[1] = static_cast<std::uint64_t>(step);
  device_.copy(compute, slot.rng.data(), rng, rng_bytes);
  const Tensor gradients = model_.params().gradients();
  device_.fill_zero(compute, gradients.data, gradients.bytes());
  slot.totals.reset(compute);

  slot.data_wait_ms = -1e3 * source.wait_seconds();
  for (int i = 0; i < options_.local_micro_batches; ++i) {
    run_micro_batch(slot, i, source.next(*streams_.copy, compute));
  }
  slot.data_wait_ms += 1e3 * source.wait_seconds();

  slot.totals.publish(group_, compute, *streams_.comm);
  compute.record(*slot.reduce_begin);
  reducer_.finish();
  compute.record(*slot.reduce_end);
  optimizer_.step(compute, step, options_.schedule.at(step));
  device_.copy(compute, slot.norm_host.data(), optimizer_.gradient_norm().data, sizeof(float));
  if (options_.after_update) options_.after_update(compute);
  compute.record(*slot.updated);
}

void StepEngine::run_micro_batch(Slot& slot, int index, const Batch& batch) {
  const bool last = index + 1 == options_.local_micro_batches;
  const auto at = static_cast<std::size_t>(index);
  Context context = model_.context(*streams_.compute, batch, /*training=*/true);
  context.rng = slot.rng.view(DType::u64, Shape{2});
  context.gradient_scale = 1.0F / static_cast<float>(targets_per_step());
  context.statistic_weight = 1.0F / static_cast<float>(options_.global_micro_batches);
  context.label_smoothing = options_.label_smoothing;
  if (last) {
    reducer_.begin();
    context.gradients = &reducer_;
  }
  Stream& compute = context.stream;
  compute.record(*slot.forward_begin[at]);
  model_.forward(context);
  slot.totals.add(context);
  compute.record(*slot.backward_begin[at]);
  model_.backward(context);
  compute.record(*slot.backward_end[at]);
}

StepReport StepEngine::read(std::int64_t step) {
  Slot& slot = slot_of(step);
  slot.updated->synchronize();
  StepReport report{
      .step = step, .learning_rate = options_.schedule.at(step), .data_wait_ms = slot.data_wait_ms};
  report.loss = slot.totals.read().loss / static_cast<double>(targets_per_step());
  report.grad_norm = static_cast<double>(*reinterpret_cast<const float*>(slot.norm_host.data()));
  report.step_ms = slot.updated->milliseconds_since(*slot.start);
  for (std::size_t i = 0; i < slot.forward_begin.size(); ++i) {
    report.forward_ms += slot.backward_begin[i]->milliseconds_since(*slot.forward_begin[i]);
    report.backward_ms += slot.backward_end[i]->milliseconds_since(*slot.backward_begin[i]);
  }
  report.exposed_comm_ms = slot.reduce_end->milliseconds_since(*slot.reduce_begin);
  report.optimizer_ms = slot.updated->milliseconds_since(*slot.reduce_end);
  return report;
}

}  // namespace trireme
