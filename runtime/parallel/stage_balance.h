// SPDX-License-Identifier: Apache-2.0
// Cutting a model into pipeline stages.
#pragma once

#include <span>
#include <vector>

namespace trireme {

// How many layers each of `parts` contiguous, non-empty runs holds so that the dearest run is as
// cheap as can be. Of those cuts the one with the least sum of squares, so that no run is short
// without need; then the one whose earlier runs are longer. Costs are not negative; a difference of
// 1e-9 of the dearest run counts as none, so that the cut does not hang on rounding. Exact:
// O(parts * layers^2).
[[nodiscard]] std::vector<int> balance(std::span<const double> cost_per_layer, int parts);

}  // namespace trireme
