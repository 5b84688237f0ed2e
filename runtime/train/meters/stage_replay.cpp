// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/meters/stage_replay.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace trireme {
namespace {

std::vector<double> pairs_of(const std::vector<double>& values) {
  std::vector<double> pairs;
  for (std::size_t i = 0; i + 1 < values.size(); i += 2)
    pairs.push_back(values[i] + values[i + 1]);
  return pairs;
}

// By virtual stage.
std::vector<double> flops_of(std::span<const LayerSummary> layers, const StagePlan& plan) {
  std::vector<double> flops;
  for (std::size_t stage = 0; stage + 1 < plan.first_layer.size(); ++stage) {
    double sum = 0;
    for (int layer = plan.first_layer[stage]; layer < plan.first_layer[stage + 1]; ++layer)
      sum += layers[static_cast<std::size_t>(layer)].forward_flops;
    flops.push_back(sum);
  }
  return flops;
}

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

}  // namespace

double length_of_step(const ScheduleShape& shape, const Costs& costs, double cores) {
  return unsupported(shape) ? 0 : simulate(shape, costs, {.cores = cores}).makespan;
}

double with_zero_bubble(const ScheduleShape& shape, const Costs& split, double cores) {
  if (shape.kind == ScheduleKind::zero_bubble || shape.chunks > 1) return 0;
  ScheduleShape other = shape;
  other.kind = ScheduleKind::zero_bubble;
  return length_of_step(other, split, cores);
}

double with_half_micro_batches(const ScheduleShape& shape, const Costs& half, double cores) {
  ScheduleShape more = shape;
  more.micro_batches *= 2;
  return length_of_step(more, half, cores);
}

double with_half_the_stages(const ScheduleShape& shape, const Costs& costs, double cores) {
  if (shape.chunks > 1 || shape.stages % 2 != 0 || shape.micro_batches % 2 != 0) return 0;
  ScheduleShape fewer = shape;
  fewer.stages /= 2;
  fewer.micro_batches /= 2;
  const Costs joined{.forward = pairs_of(costs.forward),
                     .backward = pairs_of(costs.backward),
                     .backward_weight = pairs_of(costs.backward_weight),
                     .transfer = costs.transfer};
  if (fewer.stages > 1) return length_of_step(fewer, joined, cores / 2);
  // One stage has no schedule: its passes follow each other, and all ranks always compute.
  const double alone = fewer.micro_batches * (sum_of(joined.forward) + sum_of(joined.backward) +
                                              sum_of(joined.backward_weight));
  return alone / std::min(cores / shape.stages, 1.0);
}

std::optional<Costs> costs_of_cut(const Costs& costs, std::span<const LayerSummary> layers,
                                  const StagePlan& present, const StagePlan& other) {
  constexpr double trusted = 0.25;
  const std::vector<double> now = flops_of(layers, present), then = flops_of(layers, other);
  const double all = sum_of(now);
  if (now.size() != then.size() || now.size() != costs.forward.size() || !(all > 0)) return {};
  const auto count = static_cast<double>(now.size());
  for (std::size_t stage = 0; stage < now.size(); ++stage) {
    double measured = 0, total = 0;
    for (const std::vector<double>* const of :
         {&costs.forward, &costs.backward, &costs.backward_weight}) {
      measured += (*of)[stage];
      total += sum_of(*of);
    }
    if (std::abs(measured - total * now[stage] / all) > trusted * total / count) return {};
  }
  const auto recut = [&](const std::vector<double>& measured) {
    std::vector<double> result;
    for (const double flops : then)
      result.push_back(sum_of(measured) * flops / all);
    return result;
  };
  return Costs{recut(costs.forward), recut(costs.backward), recut(costs.backward_weight),
               costs.transfer};
}

}  // namespace trireme
