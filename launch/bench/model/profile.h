// SPDX-License-Identifier: Apache-2.0
// Where the time of a step goes, operation by operation, on a processor.
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
  Traffic traffic{};  // as declared for a GPU's kernels: each pass over an operand
};

struct StepProfile {
  int steps = 0;
  double seconds = 0;                     // of a step: the mean, as of the operations
  std::vector<OperationTime> operations;  // the longest first
  double flops_limit = 0;                 // of very large matmuls, a second
  double bytes_limit = 0;                 // of copies, read and written, a second
};

// Trains `config` (of on_one_rank) on made-up batches for at least `seconds` and five steps. Raises
// ExitCode::config for a GPU, whose work ends when no operation is open any more.
[[nodiscard]] StepProfile profile_step(Device& device, const Config& config, double seconds);

// As a table.
[[nodiscard]] std::string to_text(const StepProfile& profile);

}  // namespace trireme::model_bench
