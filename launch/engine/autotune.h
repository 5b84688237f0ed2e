// SPDX-License-Identifier: Apache-2.0
// The file of `device.autotune`. See Note [Tuned GEMMs] in ops/gemm/gemm_tuning.h.
#pragma once

#include <string>

#include "runtime/comm/communicator.h"
#include "runtime/device/device.h"

namespace trireme {

// From here on all ranks' matmuls use the choices that rank 0 reads from `file`, if it exists.
// Raises ExitCode::config if it is damaged or from another GPU or library. Collective.
void use_tuned_gemms(Communicator& world, Device& device, const std::string& file);

// What to do about a matmul that cannot be measured because its operands do not fit beside the
// model.
enum class Unmeasured : std::uint8_t {
  suggestion,  // use the library's suggestion, with a warning
  error        // ExitCode::config: a run with more memory would have other bits
};

// Call it before the first step, when all ranks have planned their matmuls. Rank 0 measures those
// that any rank uses and the file lacks, and rewrites the file; then all ranks use it. Collective.
void tune_gemms(Communicator& world, Stream& stream, const std::string& file,
                Unmeasured unmeasured);

// The same after the last step, for later matmuls (evaluation, generation): serves the next run.
// Collective.
void complete_tuned_gemms(Communicator& world, Stream& stream, const std::string& file);

}  // namespace trireme
