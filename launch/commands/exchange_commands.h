// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

namespace trireme {

// Registers `trireme checkpoint export` and `import`.
void add_exchange_commands(CLI::App& checkpoint);

}  // namespace trireme
