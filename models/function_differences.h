// SPDX-License-Identifier: Apache-2.0
// Whether weights mean the same in two models.
#pragma once

#include <string>
#include <vector>

#include "runtime/config/model_config.h"

namespace trireme {

struct FunctionDifference {
  std::string key, ours, theirs;  // "model.rope_theta" and both values
};

// The keys by which the same weights answer otherwise in `ours` than in `theirs`. What training
// alone reads does not count, nor does the context where positions are rotary.
[[nodiscard]] std::vector<FunctionDifference> function_differences(const ModelConfig& ours,
                                                                   const ModelConfig& theirs);

}  // namespace trireme
