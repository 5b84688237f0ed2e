// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch/cli_fwd.h"

namespace trireme {

// `trireme generate RUN_DIRECTORY --prompt TEXT [--tokens N] [--temperature X] [--top-k K] [--seed
// S]`
void add_generate_command(CLI::App& app);

}  // namespace trireme
