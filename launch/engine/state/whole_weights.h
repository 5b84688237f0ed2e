// SPDX-License-Identifier: Apache-2.0
// What ranks hold in parts, whole on rank 0: to be written, or to compare layouts by. Everything
// is collective.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launch/engine/training_state.h"
#include "runtime/checkpoint/save/weights.h"

namespace trireme {

// Empty but on rank 0. Weights come with statistics.
[[nodiscard]] std::vector<WholeTensor> gather_weights(Session& session);
[[nodiscard]] std::vector<WholeTensor> gather_average(Session& session,
                                                      const AverageWeights& average);
// Of both moments.
[[nodiscard]] std::string optimizer_digest(Session& session, const Optimizer& optimizer);

// What a weights file says about itself; `step`: after how many steps. Local.
[[nodiscard]] std::map<std::string, std::string> weights_metadata(std::optional<std::int64_t> step);

}  // namespace trireme
