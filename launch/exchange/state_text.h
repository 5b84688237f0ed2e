// SPDX-License-Identifier: Apache-2.0
// The state that a checkpoint's manifest carries, for people.
#pragma once

#include "runtime/checkpoint/restore/run_state.h"

#include <string>

namespace trireme {

// Lines of "name      value": what Checkpointing wrote into the manifest. Of the config the keys
// that differ from the defaults, one a line; all of them with `whole_config`. Text that is not a
// run's state is named as such.
[[nodiscard]] std::string describe_state(const std::string& state, bool whole_config);

// `trireme checkpoint inspect`: two states of runs, tensor by tensor.
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
