// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch/cli_fwd.h"

namespace trireme {

// `trireme bench coordinates`: how large activations are at several widths, with the standard
// parametrisation and with muP (the coordinate check of Yang et al., "Tensor Programs V", 2022,
// appendix D.1).
void add_bench_coordinates(CLI::App& bench_command);

}  // namespace trireme
