// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launch/cli_fwd.h"

namespace trireme {

// `trireme train CONFIG [--set key=value]... [--print-config]`. `command_line` is recorded in
// environment.json.
void add_train_command(CLI::App& app, std::vector<std::string> command_line);

}  // namespace trireme
