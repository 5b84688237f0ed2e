// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch/cli_fwd.h"

namespace trireme {

// `trireme bench kernels`
void add_bench_kernels(CLI::App& bench_command);

}  // namespace trireme
