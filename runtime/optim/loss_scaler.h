// SPDX-License-Identifier: Apache-2.0
// Dynamic loss scale: a factor keeps gradients from underflowing in f16; it falls when a step
// overflows and grows after many that did not (Micikevicius et al., "Mixed precision training",
// ICLR 2018). It is on the device, and every rank sees the same gradient norm, so no host and no
// collective decides about it.
#pragma once

#include "runtime/device/device.h"
#include "runtime/ops/update/optimizer_update.h"

namespace trireme {

class LossScaler {
 public:
  LossScaler(Device& device, const ops::LossScaleOptions& options);

  // (1) f32 on the device: multiplies the loss's gradient; clip_scale divides by it.
  [[nodiscard]] Tensor scale() const { return state().range(ops::LossScaleState::scale, 1); }
  // LossScaleState on the device: all that a checkpoint must store.
  [[nodiscard]] Tensor state() const;
  [[nodiscard]] const ops::LossScaleOptions& options() const { return options_; }
  // Enqueues the change that the step's scalars (ops::StepScalars, after clip_scale) require.
  void update(Stream& stream, const Tensor& scalars);

 private:
  ops::LossScaleOptions options_;
  Buffer state_;
};

}  // namespace trireme
