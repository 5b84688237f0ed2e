// SPDX-License-Identifier: Apache-2.0
// Dynamic loss scale: a factor keeps gradients from underflowing in f16; it falls when a step
// overflows and grows after many that did not (Micikevicius et al., "Mixed precision training",
// ICLR 2018). It is on the device, and every rank sees the same gradient norm, so no host and no
// collective decides about it.
#pragma once

#include "runtime/ops/update/optimizer_update.h"
#include "runtime/optim/gradient_transform.h"

namespace trireme {

class LossScaler final : public GradientTransform {
 public:
  LossScaler(Device& device, const ops::LossScaleOptions& options);

  // (1) f32 on the device: multiplies the loss's gradient (GradientStep::loss_scale).
  [[nodiscard]] Tensor scale() const { return state().range(ops::LossScaleState::scale, 1); }
  // LossScaleState on the device: all that a checkpoint must store.
  [[nodiscard]] Tensor state() const;
  [[nodiscard]] const ops::LossScaleOptions& options() const { return options_; }
  // Changes the scale as the step's scalars require. After GradientNorm.
  void apply(Stream& stream, const ParamStore& params, const GradientStep& step) override;

 private:
  ops::LossScaleOptions options_;
  Buffer state_;
};

}  // namespace trireme
