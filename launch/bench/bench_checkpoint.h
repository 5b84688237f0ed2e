// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

namespace trireme {

// `trireme bench checkpoint`.
void add_bench_checkpoint(CLI::App& bench);

}  // namespace trireme
