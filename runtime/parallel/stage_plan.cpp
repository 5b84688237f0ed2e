// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/stage_plan.h"

#include <algorithm>

namespace trireme {

int StagePlan::stage_of_layer(int layer, const ScheduleShape& shape) const {
  const auto next = std::ranges::upper_bound(first_layer, layer);
  return (static_cast<int>(next - first_layer.begin()) - 1) % shape.stages;
}

std::vector<ChunkSpan> StagePlan::chunks(const ScheduleShape& shape, int stage,
                                         bool training) const {
  std::vector<ChunkSpan> spans;
  for (int chunk = 0; chunk < shape.chunks; ++chunk) {
    const auto at = static_cast<std::size_t>(virtual_stage(shape, stage, chunk));
    spans.push_back({.first = first_layer[at],
                     .last = first_layer[at + 1],
                     .slots = training ? slots(shape, stage, chunk) : 1});
  }
  return spans;
}

std::vector<Handover> StagePlan::inputs(const ScheduleShape& shape, int stage,
                                        std::span<const LayerSummary> layers) const {
  std::vector<Handover> received;
  for (const ChunkSpan& span : chunks(shape, stage, false)) {
    received.push_back(
        span.first == 0 ? Handover{} : layers[static_cast<std::size_t>(span.first) - 1].handover());
  }
  return received;
}

StagePlan plan_stages(std::span<const LayerSummary> layers, const ScheduleShape& shape,
                      std::span<const std::int64_t> layers_per_stage) {
  std::vector<int> counts(layers_per_stage.begin(), layers_per_stage.end());
  if (counts.empty()) {
    std::vector<double> costs;
    std::ranges::transform(layers, std::back_inserter(costs), &LayerSummary::forward_flops);
    counts = balance(costs, virtual_stages(shape));
  }
  StagePlan plan{.first_layer = {0}};
  for (const int count : counts)
    plan.first_layer.push_back(plan.first_layer.back() + count);
  TRIREME_EXPECTS(static_cast<int>(counts.size()) == virtual_stages(shape) &&
                      plan.first_layer.back() == static_cast<int>(layers.size()),
                  "{} stages with {} layers, for {} stages and {} layers", counts.size(),
                  plan.first_layer.back(), virtual_stages(shape), layers.size());
  return plan;
}

}  // namespace trireme
