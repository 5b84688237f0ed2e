// SPDX-License-Identifier: Apache-2.0
// Gathers distributed tensors on rank 0, to write them or to compare layouts. All functions are
// collective.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launch/engine/training_state.h"
#include "runtime/checkpoint/save/weights.h"

namespace trireme {

// Empty except on rank 0. Includes statistics.
[[nodiscard]] std::vector<WholeTensor> gather_weights(Session& session);
[[nodiscard]] std::vector<WholeTensor> gather_average(Session& session,
                                                      const AverageWeights& average);
// Over both moments.
[[nodiscard]] std::string optimizer_digest(Session& session, const Optimizer& optimizer);

// Metadata of a weights file; `step`: number of steps trained. Local.
[[nodiscard]] std::map<std::string, std::string> weights_metadata(std::optional<std::int64_t> step);

}  // namespace trireme
