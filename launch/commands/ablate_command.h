// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch/cli_fwd.h"

namespace trireme {

// `trireme ablate`: one process that starts jobs, and no rank itself.
void add_ablate_command(CLI::App& app);

}  // namespace trireme
