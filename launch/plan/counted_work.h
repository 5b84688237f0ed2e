// SPDX-License-Identifier: Apache-2.0
// What the planner reads of a config's layers on a GPU: counted on a dry device by the model's own
// passes (runtime/device/work_log.h), so that it is what a run will ask for.
#pragma once

#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/device/work_log.h"
#include "runtime/plan/layer_work.h"

namespace trireme {

// What one call of an operation asks for.
[[nodiscard]] plan::OperationWork work_of(const std::string& operation, const Traffic& traffic);

struct CountedWork {
  std::vector<plan::LayerWork> layers;  // of the whole chain, on one of the tensor ranks
  // What the update of a parameter moves, without the norm and the compute copy.
  double optimizer_bytes = 0;
};

// Of one micro-batch of a resolved config, on tensor rank 0.
[[nodiscard]] CountedWork count_work(const Config& config);

}  // namespace trireme
