// SPDX-License-Identifier: Apache-2.0
// A counted step as text for people and as JSON for programs, with the time that each operation
// would take at the rates of a hardware file.
#pragma once

#include <string>

#include "launch/bench/kernels/step_count.h"
#include "runtime/plan/hardware.h"

namespace trireme::kernel_bench {

// max(flops / rate, bytes / bandwidth) of each call, + launch for each launch; of one launch a call
// where launches are not known.
[[nodiscard]] double roofline_seconds(const OperationCount& operation, Precision precision,
                                      const plan::Hardware& hardware);

[[nodiscard]] std::string describe(const StepCount& count, const Config& config,
                                   const plan::Hardware& hardware);
[[nodiscard]] std::string to_json(const StepCount& count, const Config& config,
                                  const plan::Hardware& hardware);

}  // namespace trireme::kernel_bench
