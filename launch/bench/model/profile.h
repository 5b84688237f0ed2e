// SPDX-License-Identifier: Apache-2.0
// Time of a step on a CPU, by operation.
#pragma once

#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/device/device.h"
#include "runtime/device/work_log.h"

namespace trireme::model_bench {

// All calls of one operation in a step.
struct OperationTime {
  std::string name;
  double calls = 0, seconds = 0;
  Traffic traffic{};  // as declared for GPU kernels: each pass over an operand
};

struct StepProfile {
  int steps = 0;
  double seconds = 0;                     // mean per step, also for operations
  std::vector<OperationTime> operations;  // the longest first
  double flops_limit = 0;                 // of very large matmuls, per second
  double bytes_limit = 0;                 // of copies, read and written, per second
};

// Trains `config` (of on_one_rank) on synthetic batches for at least `seconds` and five steps.
// Raises ExitCode::config for a GPU, whose work is asynchronous to operations.
[[nodiscard]] StepProfile profile_step(Device& device, const Config& config, double seconds);

// As a table.
[[nodiscard]] std::string to_text(const StepProfile& profile);

}  // namespace trireme::model_bench
