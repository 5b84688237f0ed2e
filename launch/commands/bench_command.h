// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch/cli_fwd.h"

namespace trireme {

// `trireme bench ...`
void add_bench_command(CLI::App& app);

}  // namespace trireme
