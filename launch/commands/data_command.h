// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch/cli_fwd.h"

namespace trireme {

// `trireme data pack-text|pack-images|inspect|verify`
void add_data_commands(CLI::App& app);

}  // namespace trireme
