// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch/cli_fwd.h"

namespace trireme {

// `trireme bench checkpoint`.
void add_bench_checkpoint(CLI::App& bench);

}  // namespace trireme
