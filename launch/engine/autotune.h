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

// What becomes of a matmul that cannot be measured, for its operands find no memory beside the
// model.
enum class Unmeasured : std::uint8_t {
  suggestion,  // the library's suggestion computes it, and a warning says so
  error        // ExitCode::config: another run may find the memory, and would have other bits
};

// Before the first step, when all ranks have planned their matmuls: rank 0 measures those that any
// of them computes and the file lacks, and writes the file anew; then all ranks use it. Collective.
void tune_gemms(Communicator& world, Stream& stream, const std::string& file,
                Unmeasured unmeasured);

// After the last step: the same for matmuls that came later (evaluation, generation), for the next
// run. Collective.
void complete_tuned_gemms(Communicator& world, Stream& stream, const std::string& file);

}  // namespace trireme
