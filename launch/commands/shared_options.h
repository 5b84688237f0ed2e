// SPDX-License-Identifier: Apache-2.0
// Options that several commands have, declared once.
#pragma once

#include "launch/cli_fwd.h"
#include "runtime/engine/state/loaded_weights.h"

namespace trireme {

// --weights (or --checkpoint) and --average. `choice` must outlive the parsing.
void add_weights_options(CLI::App& command, WeightsChoice& choice);

}  // namespace trireme
