// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

namespace trireme {

// `trireme bench ...`
void add_bench_command(CLI::App& app);

}  // namespace trireme
