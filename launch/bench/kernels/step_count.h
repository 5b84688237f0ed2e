// SPDX-License-Identifier: Apache-2.0
// What one training step of a config asks of one GPU, counted and not run
// (runtime/device/work_log.h), by pass, kind of layer and operation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/device/work_log.h"

namespace trireme::kernel_bench {

// One kernel, library call, copy, fill or message, by name.
struct KernelCount {
  WorkKind kind = WorkKind::kernel;
  std::string name{};
  std::int64_t calls = 0;     // that the host makes
  std::int64_t launches = 0;  // of kernels, those of libraries as far as they are known
  double bytes = 0;           // of copies and fills; of messages what the rank sends
  WorkGrid grid{};            // of kernels; of calls that differ the one of most blocks
};

struct OperationCount {
  std::string
      pass{};  // "forward", "backward", "reduce", "optimizer", or "" for the rest of the step
  std::string layer{};  // "block" of layer "block.3"; "" outside of layers
  std::string name{};   // "layer_norm_forward"; "" for what is asked outside of operations
  std::int64_t calls = 0;
  Traffic traffic{};                   // the sum; `smallest` of the last
  std::vector<KernelCount> kernels{};  // none without the CUDA back end
  // Of each kind of call: seconds depend on its own traffic.
  std::vector<Traffic> single{};

  [[nodiscard]] std::int64_t launches() const;
  [[nodiscard]] std::int64_t host_calls() const;
};

struct StepCount {
  bool launches = false;  // the CUDA back end is in the build, so kernels are known
  std::int64_t micro_batches = 1;
  std::vector<OperationCount> operations{};  // of a whole step, in the order of their first call
};

// Of rank 0 of a resolved config; its second step, at which nothing is done for the first time.
[[nodiscard]] StepCount count_step(const Config& config);
// The same from what a log holds of a step, on whatever device.
[[nodiscard]] StepCount count_of(const WorkLog& log, std::int64_t micro_batches);

// Whether a pass is done once for each micro-batch.
[[nodiscard]] bool repeats(const OperationCount& operation);

// Of the whole step by name, "all_to_all bf16 (data)", in the order of their first calls.
[[nodiscard]] std::vector<KernelCount> messages(const StepCount& count);

// Sums over a micro-batch (the mean of those of a step), or over what is done once a step.
struct Totals {
  double launches = 0, host_calls = 0, read = 0, written = 0, flops = 0;
};
[[nodiscard]] Totals micro_batch_totals(const StepCount& count);
[[nodiscard]] Totals step_totals(const StepCount& count);

}  // namespace trireme::kernel_bench
