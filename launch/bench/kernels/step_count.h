// SPDX-License-Identifier: Apache-2.0
// The work of one training step on one GPU, counted without running it (runtime/device/work_log.h),
// by pass, layer kind and operation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/device/work_log.h"
#include "runtime/plan/hardware.h"

namespace trireme::kernel_bench {

// One kernel, library call, copy, fill or message, by name.
struct KernelCount {
  WorkKind kind = WorkKind::kernel;
  std::string name{};
  std::int64_t calls = 0;     // by the host
  std::int64_t launches = 0;  // of kernels, including libraries' as far as known
  double bytes = 0;           // copies and fills; messages: what the rank sends
  WorkGrid grid{};            // of kernels; if calls differ, the one with most blocks
};

struct OperationCount {
  std::string pass{};   // "forward", "backward", "reduce", "optimizer", or "" for the rest
  std::string layer{};  // "block" of layer "block.3"; "" outside of layers
  std::string name{};   // "layer_norm_forward"; "" for work outside of operations
  std::int64_t calls = 0;
  Traffic traffic{};                   // the sum; `smallest` of the last
  std::vector<KernelCount> kernels{};  // none without the CUDA back end
  // Per call: the time depends on each call's traffic.
  std::vector<Traffic> single{};

  [[nodiscard]] std::int64_t launches() const;
  [[nodiscard]] std::int64_t host_calls() const;
};

struct StepCount {
  bool launches = false;  // the CUDA back end is in the build, so kernels are known
  std::int64_t micro_batches = 1;
  std::vector<OperationCount> operations{};  // of a whole step, in order of their first call
};

// For rank 0 of a resolved config; its second step, which has no first-time work.
[[nodiscard]] StepCount count_step(const Config& config);
// The same from a log of a step, on any device.
[[nodiscard]] StepCount count_of(const WorkLog& log, std::int64_t micro_batches);

// Whether a pass runs once per micro-batch.
[[nodiscard]] bool repeats(const OperationCount& operation);

// Over the whole step by name, "all_to_all bf16 (data)", in order of their first call.
[[nodiscard]] std::vector<KernelCount> messages(const StepCount& count);

// Sums over a micro-batch (a step's mean), or over what runs once per step.
struct Totals {
  double launches = 0, host_calls = 0, read = 0, written = 0, flops = 0;
};
[[nodiscard]] Totals micro_batch_totals(const StepCount& count);
[[nodiscard]] Totals step_totals(const StepCount& count);

// A counted step as text and as JSON, with the time of each operation at the rates of a hardware
// file.

// Sum over calls of max(flops / rate, bytes / bandwidth), plus launch overhead per launch (one per
// call if launches are unknown).
[[nodiscard]] double roofline_seconds(const OperationCount& operation, Precision precision,
                                      const plan::Hardware& hardware);

[[nodiscard]] std::string describe(const StepCount& count, const Config& config,
                                   const plan::Hardware& hardware);
[[nodiscard]] std::string to_json(const StepCount& count, const Config& config,
                                  const plan::Hardware& hardware);

}  // namespace trireme::kernel_bench
