// SPDX-License-Identifier: Apache-2.0
// Prints the state in a checkpoint's manifest.
#pragma once

#include "runtime/checkpoint/restore/run_state.h"

#include <string>

namespace trireme {

// Whether the state's config cuts samples in space.
[[nodiscard]] bool cuts_samples(const std::string& state);
// Likewise parallel.context; 1 if it is not known.
[[nodiscard]] int context_ranks(const std::string& state);
// Lines of "name      value" from the manifest. Of the config only keys that differ from their
// defaults, one per line; with `whole_config` all keys. Says so if the text is not a run's state.
[[nodiscard]] std::string describe_state(const std::string& state, bool whole_config);

// `trireme checkpoint inspect`: two states of runs, tensor by tensor.
struct StateDifference {
  int tensors = 0;    // compared
  int differing = 0;  // of these
  bool scalars = false;
  [[nodiscard]] bool none() const { return differing == 0 && !scalars; }
};

// Prints a line for each tensor with different bits, and for values that only one of the two has:
// weights alone have no moments.
[[nodiscard]] StateDifference print_difference(const RunState& a, const RunState& b);

}  // namespace trireme
