// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

namespace trireme {

// `trireme data pack-text|pack-images|inspect|verify`
void add_data_commands(CLI::App& app);

}  // namespace trireme
