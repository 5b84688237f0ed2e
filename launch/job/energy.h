// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "runtime/comm/mpi.h"
#include "runtime/config/config.h"

namespace trireme {

// StepOptions::joules of this rank of a job: on GPUs its own one's, else of the first rank of a
// host the processors'. Why there is none is logged for debugging. `config` is resolved.
[[nodiscard]] std::function<double()> energy_of_rank(const MpiEnvironment& mpi,
                                                     const Config& config);

}  // namespace trireme
