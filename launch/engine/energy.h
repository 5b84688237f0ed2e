// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "runtime/config/config.h"

namespace trireme {

// StepOptions::joules of this rank: its own GPU's energy, or on CPUs, for local rank 0, the
// processors'. Logs at debug level why there is none. `config` is resolved.
[[nodiscard]] std::function<double()> energy_of_rank(int local_rank, const Config& config);

}  // namespace trireme
