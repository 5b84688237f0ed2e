// SPDX-License-Identifier: Apache-2.0
// Optimizers over the flat arenas of a ParamStore. Clipping and the update read their scalars from
// device memory.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>

#include "runtime/nn/param.h"
#include "runtime/ops/optimizer.h"

namespace trireme {

using OptimizerOptions = std::variant<ops::AdamWOptions, ops::SgdOptions>;

class Optimizer {
 public:
  // `params` must be allocated for training and outlive the optimizer.
  Optimizer(Device& device, ParamStore& params, const OptimizerOptions& options, float clip_norm);

  // Enqueues: gradient norm over all weights, clip factor, update of every segment, running
  // statistics. `step` counts from 0. A step whose gradient norm is not finite leaves parameters
  // and state as they were.
  void step(Stream& stream, std::int64_t step, double learning_rate);

  // (1) f32 on the device: the norm of the last step before clipping.
  [[nodiscard]] Tensor gradient_norm() const;
  [[nodiscard]] std::size_t state_bytes() const { return first_.bytes() + second_.bytes(); }

 private:
  void write_scalars(Stream& stream, std::int64_t step, double learning_rate);
  void update(Stream& stream, const ParamSegment& segment);

  Device& device_;
  ParamStore& params_;
  OptimizerOptions options_;
  float clip_norm_;
  Buffer first_, second_;                       // AdamW: m, v; SGD: momentum buffer
  Buffer scalars_, scalars_host_, norm_, sum_;  // StepScalars, its staging copy, (1) f32, (1) f64
};

}  // namespace trireme
