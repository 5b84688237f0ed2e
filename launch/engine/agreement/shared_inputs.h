// SPDX-License-Identifier: Apache-2.0
// Inputs that must be equal on all ranks of a job. A host's copy of the program or of the data may
// differ, and so may the target of a relative path: ranks would silently train on it. All functions
// are collective and raise their error, with ranks, hosts and their values, on all ranks
// (comm/same_on_all_ranks.h). Weights and checkpoints are compared where they are found
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
