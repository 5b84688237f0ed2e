// SPDX-License-Identifier: Apache-2.0
// Measured algorithms of matmuls on a GPU.
//
// Note [Tuned GEMMs]
// Which algorithm multiplies decides the bits of the result, and a measurement is never the same
// twice. So a file pins what was measured. A run begins with the file's algorithms, the same on all
// ranks; before its first step every rank plans its matmuls (StepEngine::rehearse), one rank
// measures what any of them lacks and adds it to the file, and all take it from there. Nothing is
// measured while the run trains: a matmul that comes later (evaluation) is the library's first
// suggestion. Equal files therefore give equal bits, the run that made a file has those of the runs
// that read it, and replicas agree. With reproducibility: run and layout nothing is added to the
// file later, and what cannot be measured is an error: either would give the next run other bits.
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
