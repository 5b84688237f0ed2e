// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

namespace trireme {

// trireme checkpoint inspect | verify | diff | export | import
void add_checkpoint_commands(CLI::App& app);

}  // namespace trireme
