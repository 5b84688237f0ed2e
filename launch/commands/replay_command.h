// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch/cli_fwd.h"

namespace trireme {

// `trireme replay`: runs steps of a run again and writes nothing into it.
void add_replay_command(CLI::App& app);

}  // namespace trireme
