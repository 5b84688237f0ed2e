// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch/cli_fwd.h"

namespace trireme {

// Registers `trireme checkpoint export` and `import`.
void add_exchange_commands(CLI::App& checkpoint);

}  // namespace trireme
