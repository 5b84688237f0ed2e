// SPDX-License-Identifier: Apache-2.0
// What all ranks of a job must start from alike. Host by host a copy of the program or of the data
// may be another one, and so may what a relative path leads to: ranks would train on it in silence.
// Everything here is collective and raises its error, with ranks, hosts and what they have, on all
// ranks alike (comm/same_on_all_ranks.h). Weights and checkpoints are compared where they are found
// (checkpoint/restore/verify.h).
#pragma once

#include <string>
#include <string_view>

#include "data/sets/dataset.h"
#include "runtime/comm/communicator.h"
#include "runtime/config/config.h"

namespace trireme {

// Call this first; raises ExitCode::config.
void require_same_program(Communicator& world);
void require_same_config(Communicator& world, const Config& resolved);

// Compares fingerprints; `what` names the data set in the message. Raises ExitCode::data.
void require_same_data(Communicator& world, std::string_view what, const std::string& path,
                       const Dataset& dataset);

}  // namespace trireme
