// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch/cli_fwd.h"

namespace trireme {

// `trireme verify-run`: reads run directories and writes nothing.
void add_verify_run_command(CLI::App& app);

}  // namespace trireme
