// SPDX-License-Identifier: Apache-2.0
// A counted step as text and as JSON, with the time of each operation at the rates of a hardware
// file.
#pragma once

#include <string>

#include "launch/bench/kernels/step_count.h"
#include "runtime/plan/hardware.h"

namespace trireme::kernel_bench {

// Sum over calls of max(flops / rate, bytes / bandwidth), plus launch overhead per launch (one per
// call if launches are unknown).
[[nodiscard]] double roofline_seconds(const OperationCount& operation, Precision precision,
                                      const plan::Hardware& hardware);

[[nodiscard]] std::string describe(const StepCount& count, const Config& config,
                                   const plan::Hardware& hardware);
[[nodiscard]] std::string to_json(const StepCount& count, const Config& config,
                                  const plan::Hardware& hardware);

}  // namespace trireme::kernel_bench
