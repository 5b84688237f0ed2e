// SPDX-License-Identifier: Apache-2.0
// The parameters of a stage as one of its ranks holds them: ParamLayout, as in the engine. Private
// to this module.
#pragma once

#include "runtime/plan/step_time.h"

namespace trireme::plan {

// In the order of the stage's layers: their places in the chain, and their chunks.
struct StageUnits {
  std::vector<int> layers, chunks;
};
[[nodiscard]] StageUnits units_of(const StepInput& input, int stage);

// Until the memo ends.
[[nodiscard]] const StageLayout& layout_of(const StepInput& input, const StageUnits& units,
                                           StepMemo& memo);

}  // namespace trireme::plan
