// SPDX-License-Identifier: Apache-2.0
// The planner's view of a config's layers on a GPU: counted on a dry device by the model's own
// passes (runtime/device/work_log.h), so it matches a run.
#pragma once

#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/device/work_log.h"
#include "runtime/plan/layer_work.h"

namespace trireme {

// The work of one call of an operation.
[[nodiscard]] plan::OperationWork work_of(const std::string& operation, const Traffic& traffic);

struct CountedWork {
  std::vector<plan::LayerWork> layers;  // of the whole chain, on one tensor rank
  // Memory traffic per updated parameter, without the norm and the compute copy.
  double optimizer_bytes = 0;
};

// For one micro-batch of a resolved config, on tensor rank 0.
[[nodiscard]] CountedWork count_work(const Config& config);

}  // namespace trireme
