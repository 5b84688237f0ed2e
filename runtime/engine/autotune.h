// SPDX-License-Identifier: Apache-2.0
// The file of `device.autotune`. See Note [Tuned GEMMs] in ops/gemm/gemm_tuning.h.
#pragma once

#include <string>

#include "runtime/comm/communicator.h"
#include "runtime/device/device.h"

namespace trireme {

// From here on the matmuls of all ranks use what rank 0 reads in `file`, which may not exist yet.
// Raises ExitCode::config where it is broken, or made for another GPU or library. Collective.
void use_tuned_gemms(Communicator& world, Device& device, const std::string& file);

// Rank 0 measures the matmuls that any rank computed and the file lacks, and writes the file anew.
// Collective.
void tune_gemms(Communicator& world, Stream& stream, const std::string& file);

}  // namespace trireme
