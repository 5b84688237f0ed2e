// SPDX-License-Identifier: Apache-2.0
// Messages between data-parallel ranks and their overlap with computation: gradient buckets with
// the last backward (ZeRO 2 and 3: every one), gathered parameters with the forward. Buckets are
// those of ParamLayout, as in the engine. Private to this module.
#pragma once

#include <span>

#include "runtime/parallel/schedule_timeline.h"
#include "runtime/plan/layer_cost.h"

namespace trireme::plan {

struct DataTraffic {
  double elements = 0;        // on a rank of the stage
  double owned_elements = 0;  // that its optimizer updates
  int buckets = 0;
  double bytes = 0;      // sent by a rank in a step
  double bytes_out = 0;  // of these, to other domains
  double tail = 0;       // time from the stage's last backward to the end of its reductions
  // Seconds by which concurrent messages slow down computation, and by which they outlast it in
  // micro-batches before the last.
  double slowdown = 0;
  double gather_exposed = 0;
};

// `layers`: seconds of each layer of the chain. `memo`: with the step's timeline.
[[nodiscard]] DataTraffic data_traffic(const StepInput& input, const Hardware& hardware, int stage,
                                       std::span<const LayerSeconds> layers, StepMemo& memo);

}  // namespace trireme::plan
