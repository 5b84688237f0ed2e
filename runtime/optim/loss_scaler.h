// SPDX-License-Identifier: Apache-2.0
// Dynamic loss scale: gradients that f16 would flush to zero are computed multiplied by a factor,
// which falls when a step overflows and grows after many that did not (Micikevicius et al., "Mixed
// precision training", ICLR 2018). It lives on the device, and every rank sees the same gradient
// norm: no host and no collective decides about it.
#pragma once

#include "runtime/device/device.h"
#include "runtime/ops/update/optimizer_update.h"

namespace trireme {

class LossScaler {
 public:
  LossScaler(Device& device, const ops::LossScaleOptions& options);

  // (1) f32 on the device: multiplies the loss's gradient, and is divided out by clip_scale.
  [[nodiscard]] Tensor scale() const { return state().range(ops::LossScaleState::scale, 1); }
  // LossScaleState on the device: all that a checkpoint must keep.
  [[nodiscard]] Tensor state() const;
  [[nodiscard]] const ops::LossScaleOptions& options() const { return options_; }
  // Enqueues the change that the step's scalars (ops::StepScalars, after clip_scale) ask for.
  void update(Stream& stream, const Tensor& scalars);

 private:
  ops::LossScaleOptions options_;
  Buffer state_;
};

}  // namespace trireme
