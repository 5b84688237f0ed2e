// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "runtime/config/config.h"

namespace trireme {

// StepOptions::joules of the rank `local_rank` of its host: on GPUs its own one's, else of the
// first rank the processors'. Why there is none is logged for debugging. `config` is resolved.
[[nodiscard]] std::function<double()> energy_of_rank(int local_rank, const Config& config);

}  // namespace trireme
