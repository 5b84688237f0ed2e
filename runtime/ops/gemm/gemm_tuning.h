// SPDX-License-Identifier: Apache-2.0
// Measured algorithms and epilogues of matmuls on a GPU.
//
// Note [Tuned GEMMs]
// The algorithm decides the bits of a result, and measurements vary. So a file pins the measured
// choices. A run starts with the file's algorithms, equal on all ranks. Before its first step every
// rank plans its matmuls (StepEngine::rehearse), one rank measures those that are missing and adds
// them to the file, and all ranks use them. Nothing is measured during training: a later matmul
// (evaluation) uses the library's first suggestion. So equal files give equal bits, the run that
// made a file has the bits of the runs that read it, and replicas agree. With reproducibility: run
// and layout nothing is added later, and a failed measurement is an error: either would change the
// next run's bits.
//
// An epilogue (GELU, its derivative, bias gradients) can cost more than the kernel that it saves.
// So the file also says for each such matmul whether it is fused: both ways run by turns, on the
// same stream and memory, and fusing wins if all of its rounds but one are faster than the fastest
// round apart. Ties go to separate kernels, which have the bits of fused_epilogues: off. The choice
// decides bits too, since a fused GELU sees sums that are not rounded yet. Matmuls that are not in
// the file, or come from a file of version 1, are fused as the policy says.
//
// All raise ExitCode::config in a program without the CUDA back end.
#pragma once

#include <vector>

#include "runtime/device/device.h"
#include "runtime/ops/gemm/gemm_choices.h"

namespace trireme::ops {

// This GPU and library, without matmuls.
[[nodiscard]] GemmChoices no_gemm_choices(Device& device);

// From here on matmuls use these choices. If the library refuses one, raises ExitCode::config
// naming `file` and the matmul.
void use_gemm_choices(GemmChoices choices, std::string file);

// The matmuls so far in this process that used the library's suggestion.
[[nodiscard]] std::vector<GemmKey> unmeasured_gemms();

// Adds the fastest of up to 16 algorithms that the library suggests, measured on zeros in newly
// allocated memory. For an epilogue also whether to fuse it, and the matmul without it unless
// `choices` has that. Blocks the host; not during graph capture.
void measure_gemm(Stream& stream, const GemmKey& key, GemmChoices& choices);

}  // namespace trireme::ops
