// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch/cli_fwd.h"

namespace trireme {

// trireme checkpoint inspect | verify | diff | export | import
void add_checkpoint_commands(CLI::App& app);

}  // namespace trireme
