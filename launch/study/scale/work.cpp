// SPDX-License-Identifier: Apache-2.0
#include "launch/study/scale/work.h"

#include "launch/plan/layout_plan.h"

namespace trireme::scale {
namespace {

// Of a layer's forward with one micro-batch: its products with parameters, and all of it.
struct LayerFlops {
  double products = 0, all = 0;
};

LayerFlops flops_of(const LayerSummary& layer, const plan::StepInput& input) {
  const auto rows = static_cast<double>(input.build.micro_batch * input.rows_per_sample);
  LayerFlops flops{.all = layer.forward_flops};
  if (layer.forward_flops == 0) return flops;  // a table that rows are looked up in
  for (const ParamSpec& spec : layer.params) {
    if (!spec.matrix || spec.shape.rank() != 2) continue;
    flops.products += 2 * rows * static_cast<double>(spec.shape.count());
  }
  // A classifier reads one row of each sample, and convolutions are not products by rows.
  flops.products = std::min(flops.products, flops.all);
  return flops;
}

}  // namespace

PointWork work_of(const Config& config) {
  const PlannedStep planned = planned_step(config);
  const plan::StepInput input = StepPlanner(false).input(config);
  const auto micro_batches = static_cast<double>(config.train.global_batch) /
                             static_cast<double>(config.train.micro_batch);
  PointWork work{
      .model = plan::model_flops(input), .peak = planned.peak_flops, .predicted = planned.seconds};
  constexpr double passes = 3;  // forward, and two products of its size in backward
  double repeated = 0;
  for (std::size_t i = 0; i < input.layers.size(); ++i) {
    const LayerFlops flops = flops_of(input.layers[i], input);
    work.six_n += passes * flops.products * micro_batches;
    if (i == 0 || i + 1 == input.layers.size()) continue;  // no block
    if (input.build.recompute == Recompute::full) repeated += flops.all;
    if (input.build.recompute == Recompute::selective) repeated += flops.all - flops.products;
  }
  work.hardware = work.model + repeated * micro_batches;
  return work;
}

}  // namespace trireme::scale
