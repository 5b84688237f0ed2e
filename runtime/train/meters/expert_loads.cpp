// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/meters/expert_loads.h"

#include "runtime/comm/comm_label.h"

namespace trireme {

ExpertLoads::ExpertLoads(Device& device, const ProcessMesh& mesh, const ParamStore& params,
                         std::span<const ParamSpec> chain, std::int64_t every, std::int64_t last)
    : device_(device), pipeline_(mesh.pipeline()), every_(every), last_(last) {
  std::int64_t all = 0;
  for (const ParamSpec& spec : chain) {
    if (every == 0 || spec.kind != ParamKind::statistic || !spec.name.ends_with(statistic))
      continue;
    const std::int64_t experts = spec.shape.count();
    layers_.push_back({.name = spec.name.substr(0, spec.name.size() - statistic.size()),
                       .first = all,
                       .experts = experts,
                       .slots = spec.slots});
    all += experts;
    for (const ParamId id : params.layout().order()) {
      if (params.layout().spec(id).name == spec.name)
        layers_.back().own = params.compute(id).range(0, experts);
    }
  }
  if (layers_.empty()) return;
  const std::size_t bytes = static_cast<std::size_t>(all) * sizeof(float);
  for (Slot& slot : slots_) {
    slot.host = Buffer(device, bytes, MemoryKind::host);
    if (pipeline_.size() == 1) continue;
    slot.counts = Buffer(device, bytes, MemoryKind::device);
    slot.placed = device.make_event();
    slot.copied = device.make_event();
  }
}

bool ExpertLoads::reads(std::int64_t step) const {
  return !layers_.empty() && ((step + 1) % every_ == 0 || step + 1 == last_);
}

void ExpertLoads::updated(std::int64_t step, Stream& compute, Stream& comm) {
  if (!reads(step)) return;
  Slot& slot = slot_of(step);
  const bool staged = pipeline_.size() > 1;
  std::byte* const place = staged ? slot.counts.data() : slot.host.data();
  if (staged) device_.fill_zero(compute, place, slot.counts.bytes());
  for (const Layer& layer : layers_) {
    if (!layer.own.empty())
      device_.copy(compute, place + static_cast<std::size_t>(layer.first) * sizeof(float),
                   layer.own.data, layer.own.bytes());
  }
  if (!staged) return;
  const ScopedCommLabel label("load of experts");
  compute.record(*slot.placed);
  comm.wait(*slot.placed);
  const Tensor counts = slot.counts.view(
      DType::f32, Shape{static_cast<std::int64_t>(slot.counts.bytes() / sizeof(float))});
  pipeline_.all_reduce(comm, counts, counts, ReduceOp::sum);
  device_.copy(comm, slot.host.data(), slot.counts.data(), slot.host.bytes());
  comm.record(*slot.copied);
}

void ExpertLoads::read(StepReport& report) {
  if (!reads(report.step)) return;
  const Slot& slot = slot_of(report.step);
  if (slot.copied) slot.copied->synchronize();
  const auto* const counts = reinterpret_cast<const float*>(slot.host.data());
  for (const Layer& layer : layers_)
    report.loads.push_back(load_of(
        layer.name, std::span(counts + layer.first, static_cast<std::size_t>(layer.experts)),
        layer.slots));
}

}  // namespace trireme
