// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch/cli_fwd.h"

namespace trireme {

void add_top_command(CLI::App& app);

}  // namespace trireme
