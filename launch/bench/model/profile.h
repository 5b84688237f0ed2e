// SPDX-License-Identifier: Apache-2.0
// Time of a step by operation, on a CPU core or a GPU.
#pragma once

#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/device/device.h"
#include "runtime/device/work_log.h"

namespace trireme::model_bench {

// All calls of one operation in a step; those of other sizes, by FLOPs, are another row.
struct OperationTime {
  std::string name;
  double calls = 0, seconds = 0;
  Traffic traffic{};  // as declared for GPU kernels: each pass over an operand
  double lost = 0;    // seconds beyond those that the FLOPs or the bytes take at the limits
};

struct StepProfile {
  int steps = 0;
  double seconds = 0;                     // mean per step, also for operations
  std::vector<OperationTime> operations;  // those that lose most first
  double flops_limit = 0;                 // of very large matmuls, per second
  double bytes_limit = 0;                 // of copies, read and written, per second
};

// Trains `config` (of on_one_rank) on synthetic batches for at least `seconds` and five steps,
// without CUDA graphs. Events time each operation on its stream: on a GPU that includes waiting for
// the host where it launches more slowly than the GPU computes.
[[nodiscard]] StepProfile profile_step(Device& device, const Config& config, double seconds);

// As a table.
[[nodiscard]] std::string to_text(const StepProfile& profile);

}  // namespace trireme::model_bench
