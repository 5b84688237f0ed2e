// SPDX-License-Identifier: Apache-2.0
// What a layer asks of a device for one micro-batch, operation by operation, as counted by the code
// that asks (device/work_log.h): bytes, FLOPs, and which rate they go at.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/plan/hardware.h"

namespace trireme::plan {

enum class Rate : std::uint8_t {
  memory,  // no FLOPs that count
  matmul,
  matmul_fp8,
  attention,
  convolution
};

struct OperationWork {
  Rate rate = Rate::memory;
  double bytes = 0;  // read and written
  double flops = 0;
  double smallest = 0;  // dimension of a matmul; of attention the size of a head
  int kernels = 1;
};

// FLOP/s that the precision has at most; with fp8 what is not a matmul in it is computed in bf16.
// Raises ExitCode::config where the hardware has no rate for it.
[[nodiscard]] double peak_of(Precision precision, bool in_fp8, const Hardware& hardware);

// Of one call: max(flops / rate, bytes / bandwidth) + its launches, by the efficiencies of the
// hardware. Raises as peak_of().
[[nodiscard]] double seconds_of(const OperationWork& work, Precision precision,
                                const Hardware& hardware);

struct LayerWork {
  std::vector<OperationWork> forward;
  std::vector<OperationWork> recompute;        // forward work that backward repeats
  std::vector<OperationWork> backward_input;   // gradient of the input
  std::vector<OperationWork> backward_weight;  // gradients of the parameters
};

}  // namespace trireme::plan
