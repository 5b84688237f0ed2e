// SPDX-License-Identifier: Apache-2.0
// What `trireme bench machine` measures on one rank, and the hardware that the planner needs to
// predict it.
#pragma once

#include "runtime/config/config.h"
#include "runtime/device/device.h"
#include "runtime/plan/hardware.h"

namespace trireme::model_bench {

// The config's model on one rank alone: no group, no pipeline, two micro-batches a step.
[[nodiscard]] Config on_one_rank(Config config, const Environment& environment,
                                 const Provenance& where);

// Seconds per step: the lower quartile over the steps.
struct StepSeconds {
  double forward = 0, backward = 0, optimizer = 0;
  double stddev = 0;  // of whole steps, relative, judged by those below the median
  int steps = 0;
};
// Trains `config` (of on_one_rank) on made-up batches for at least `seconds` and five steps.
[[nodiscard]] StepSeconds time_steps(Device& device, const Config& config, double seconds);

// Matmuls of (n, n, n): how their rate grows with n.
struct MatmulRates {
  double flops = 0;           // of very large ones
  double half_dimension = 0;  // n that reaches half of it
};
[[nodiscard]] MatmulRates time_matmuls(Device& device, DType dtype);
// Bytes per second that a copy of many times the cache reads and writes.
[[nodiscard]] double time_copy(Device& device);
// Seconds of an op that has one element to work on.
[[nodiscard]] double time_launch(Device& device);

}  // namespace trireme::model_bench
