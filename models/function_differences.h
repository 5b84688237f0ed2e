// SPDX-License-Identifier: Apache-2.0
// Whether equal weights compute the same function in two models.
#pragma once

#include <string>
#include <vector>

#include "runtime/config/model_config.h"

namespace trireme {

struct FunctionDifference {
  std::string key, ours, theirs;  // "model.rope_theta" and both values
};

// The keys that make the same weights compute another function in `ours` than in `theirs`. Ignores
// keys that only training reads, and the context if positions are rotary.
[[nodiscard]] std::vector<FunctionDifference> function_differences(const ModelConfig& ours,
                                                                   const ModelConfig& theirs);

}  // namespace trireme
