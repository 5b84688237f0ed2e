// SPDX-License-Identifier: Apache-2.0
// The measurements of `trireme bench machine` on one rank, and the hardware that predicts them.
#pragma once

#include "models/registry.h"
#include "runtime/config/config.h"
#include "runtime/device/device.h"
#include "runtime/nn/batch.h"
#include "runtime/plan/hardware.h"

namespace trireme::model_bench {

// The config's model on one rank alone: no group, no pipeline, two micro-batches per step.
[[nodiscard]] Config on_one_rank(Config config, const Environment& environment,
                                 const Provenance& where);

// Seconds per step: the lower quartile over the steps.
struct StepSeconds {
  double forward = 0, backward = 0, optimizer = 0;
  double stddev = 0;  // of whole steps, relative, from those below the median
  int steps = 0;
};
// Trains `config` (of on_one_rank) on synthetic batches for at least `seconds` and five steps.
[[nodiscard]] StepSeconds time_steps(Device& device, const Config& config, double seconds);

// Matmuls of (n, n, n): their rate as a function of n.
struct MatmulRates {
  double flops = 0;           // at very large n
  double half_dimension = 0;  // the n with half of that rate
};
[[nodiscard]] MatmulRates time_matmuls(Device& device, DType dtype);
// Bytes per second read and written by a copy much larger than the cache.
[[nodiscard]] double time_copy(Device& device);
// Seconds of an op on a single element.
[[nodiscard]] double time_launch(Device& device);

// Repeats one micro-batch of random tokens or pixels, so that timing a model needs no data set.
class SyntheticBatches final : public BatchSource {
 public:
  SyntheticBatches(Device& device, const Config& config);

  const Batch& next(Stream& copy, Stream& compute) override;
  [[nodiscard]] double wait_seconds() const override { return 0; }

 private:
  Device& device_;
  Buffer host_, memory_;
  Batch batch_;
  bool filled_ = false;
};

// For EngineParts::batches.
[[nodiscard]] std::unique_ptr<BatchSource> synthetic_batches(Device& device, const Config& config);

}  // namespace trireme::model_bench
