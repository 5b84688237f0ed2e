// SPDX-License-Identifier: Apache-2.0
// Messages between data-parallel ranks and what of them computation hides: gradient buckets behind
// the last backward (ZeRO 2 and 3: behind every one), gathered parameters behind the forward.
// Buckets are those of ParamLayout, as the engine lays them out. Private to this room.
#pragma once

#include <span>

#include "runtime/parallel/schedule_timeline.h"
#include "runtime/plan/layer_cost.h"

namespace trireme::plan {

struct DataTraffic {
  double elements = 0;        // that a rank of the stage holds
  double owned_elements = 0;  // that its optimizer updates
  int buckets = 0;
  double bytes = 0;  // that a rank sends in a step
  double tail = 0;   // reductions end so long after the stage's last backward
  // Seconds of messages beside computation that slow it down, and of those that outlast it in
  // micro-batches before the last.
  double slowdown = 0;
  double gather_exposed = 0;
};

// `layers`: seconds of each layer of the chain.
[[nodiscard]] DataTraffic data_traffic(const StepInput& input, const Hardware& hardware, int stage,
                                       std::span<const LayerSeconds> layers,
                                       const Timeline& timeline);

}  // namespace trireme::plan
