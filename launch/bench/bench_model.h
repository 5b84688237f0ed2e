// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch/cli_fwd.h"

namespace trireme {

// `trireme bench model`
void add_bench_model(CLI::App& bench_command);

}  // namespace trireme
