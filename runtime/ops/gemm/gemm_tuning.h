// SPDX-License-Identifier: Apache-2.0
// Measured algorithms of matmuls on a GPU.
//
// Note [Tuned GEMMs]
// Which algorithm multiplies decides the bits of the result, and a measurement is never the same
// twice. So nothing is measured while a run trains: its algorithms are those that the file has when
// it starts, the same on all ranks, and the library's first suggestion for matmuls that the file
// lacks. After the last step one rank measures what any rank lacked and adds it to the file. Equal
// files therefore give equal bits, and replicas agree.
//
// All raise ExitCode::config in a program without the CUDA back end.
#pragma once

#include <vector>

#include "runtime/device/device.h"
#include "runtime/ops/gemm/gemm_choices.h"

namespace trireme::ops {

// This GPU, this library, no matmuls.
[[nodiscard]] GemmChoices no_gemm_choices(Device& device);

// From here on matmuls use these. An algorithm that the library then refuses raises
// ExitCode::config naming `file` and the matmul.
void use_gemm_choices(GemmChoices choices, std::string file);

// Those computed so far in this process whose algorithm is the library's suggestion.
[[nodiscard]] std::vector<GemmKey> unmeasured_gemms();

// The fastest of up to 16 algorithms that the library suggests, on operands of zeros in memory that
// is allocated for it. Blocks the host; not while a graph is captured.
[[nodiscard]] GemmChoice measure_gemm(Stream& stream, const GemmKey& key);

}  // namespace trireme::ops
