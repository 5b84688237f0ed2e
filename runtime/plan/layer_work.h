// SPDX-License-Identifier: Apache-2.0
// A layer's work on a device for one micro-batch, by operation, counted by the code that enqueues
// it (device/work_log.h): bytes, FLOPs, and the applicable rate.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/plan/hardware.h"

namespace trireme::plan {

enum class Rate : std::uint8_t {
  memory,  // without counted FLOPs
  matmul,
  matmul_fp32,  // whatever the precision, without tensor cores
  matmul_fp8,
  attention,
  convolution
};

struct OperationWork {
  Rate rate = Rate::memory;
  double bytes = 0;  // read and written
  double flops = 0;
  double smallest = 0;  // dimension of a matmul; for attention the head size
  int kernels = 1;
  friend bool operator==(const OperationWork&, const OperationWork&) = default;
};

// Peak FLOP/s of the precision; with fp8 all but matmuls run in bf16. Raises ExitCode::config if
// the hardware has no rate for it.
[[nodiscard]] double peak_of(Precision precision, bool in_fp8, const Hardware& hardware);

// For one call: max(flops / rate, bytes / bandwidth) + its launches, with the hardware's
// efficiencies. Raises like peak_of().
[[nodiscard]] double seconds_of(const OperationWork& work, Precision precision,
                                const Hardware& hardware);

struct LayerWork {
  std::vector<OperationWork> forward;
  std::vector<OperationWork> recompute;        // forward work repeated in backward
  std::vector<OperationWork> backward_input;   // gradient of the input
  std::vector<OperationWork> backward_weight;  // gradients of the parameters
  friend bool operator==(const LayerWork&, const LayerWork&) = default;
};

}  // namespace trireme::plan
