// SPDX-License-Identifier: Apache-2.0
// Which layers of the chain each pipeline stage holds. A pure function of the layers' declared
// cost.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/nn/model.h"
#include "runtime/parallel/schedule.h"

namespace trireme {

struct StagePlan {
  std::vector<int> first_layer;  // by virtual stage, plus the chain's length at the end

  [[nodiscard]] int stage_of_layer(int layer, const ScheduleShape& shape) const;
  // The chunks of a stage, with the schedule's number of slots (1 if `training` is false).
  [[nodiscard]] std::vector<ChunkSpan> chunks(const ScheduleShape& shape, int stage,
                                              bool training) const;
  // Per chunk, what it receives; an output of rank 0 at the start of the chain.
  [[nodiscard]] std::vector<Handover> inputs(const ScheduleShape& shape, int stage,
                                             std::span<const LayerSummary> layers) const;
};

// Balanced by FLOPs, or by `layers_per_stage` (per virtual stage; empty: balanced).
[[nodiscard]] StagePlan plan_stages(std::span<const LayerSummary> layers,
                                    const ScheduleShape& shape,
                                    std::span<const std::int64_t> layers_per_stage = {});

// Lengths of `parts` contiguous, non-empty runs of layers such that the most expensive run is as
// cheap as possible. Ties: the least sum of squared costs, so that no run is needlessly short; then
// longer earlier runs. Costs are >= 0; differences below 1e-9 of the most expensive run are
// ignored, so rounding does not decide. Exact: O(parts * layers^2).
[[nodiscard]] std::vector<int> balance(std::span<const double> cost_per_layer, int parts);

}  // namespace trireme
