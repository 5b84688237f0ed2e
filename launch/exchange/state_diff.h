// SPDX-License-Identifier: Apache-2.0
// `trireme checkpoint diff`: two states of runs, tensor by tensor.
#pragma once

#include "runtime/checkpoint/restore/run_state.h"

namespace trireme {

struct StateDifference {
  int tensors = 0;    // compared
  int differing = 0;  // of these
  bool scalars = false;
  [[nodiscard]] bool none() const { return differing == 0 && !scalars; }
};

// Prints a line for each tensor whose bits differ, and for what one of the two cannot be compared
// by: weights alone have no moments.
[[nodiscard]] StateDifference print_difference(const RunState& a, const RunState& b);

}  // namespace trireme
