// SPDX-License-Identifier: Apache-2.0
// A layer's work on a device for one micro-batch, by operation, counted by the code that enqueues
// it (device/work_log.h): bytes, FLOPs, and the applicable rate.
#pragma once

#include <vector>

#include "runtime/device/work_log.h"
#include "runtime/plan/hardware.h"

namespace trireme::plan {

// Peak FLOP/s of the precision; with fp8 all but matmuls run in bf16. Raises ExitCode::config if
// the hardware has no rate for it.
[[nodiscard]] double peak_of(Precision precision, bool in_fp8, const Hardware& hardware);

// For one call: max(flops / rate, bytes / bandwidth) + its launches, with the hardware's
// efficiencies. Raises like peak_of().
[[nodiscard]] double seconds_of(const Traffic& work, Precision precision, const Hardware& hardware);

struct LayerWork {
  std::vector<Traffic> forward{};
  std::vector<Traffic> recompute{};        // forward work repeated in backward
  std::vector<Traffic> backward_input{};   // gradient of the input
  std::vector<Traffic> backward_weight{};  // gradients of the parameters
  friend bool operator==(const LayerWork&, const LayerWork&) = default;
};

}  // namespace trireme::plan
