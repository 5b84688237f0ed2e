// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch/cli_fwd.h"

namespace trireme {

// `trireme bench comm`
void add_bench_comm(CLI::App& bench_command);

}  // namespace trireme
