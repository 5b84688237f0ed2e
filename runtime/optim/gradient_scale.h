// SPDX-License-Identifier: Apache-2.0
// The transforms that determine the step's gradient scale.
#pragma once

#include "runtime/ops/update/optimizer_update.h"
#include "runtime/optim/gradient_transform.h"
#include "runtime/optim/model_groups.h"

namespace trireme {

// The norm of the gradients of all weights on all ranks, each counted once, and the factor that
// clips it. The factor also divides by the loss scale.
class GradientNorm final : public GradientTransform {
 public:
  // `clip`: the largest norm; 0: any. `exact` as in OptimizerOptions. `groups` must outlive this.
  GradientNorm(Device& device, const ParamStore& params, float clip, bool exact = false,
               const ModelGroups& groups = ModelGroups::one_rank());

  // Reads partial sum 0 of the gradients. A norm that is not finite makes the gradient scale 0.
  void apply(Stream& stream, const ParamStore& params, const GradientStep& step) override;
  // (1) f32 on the device: the last step's norm before clipping, without the loss scale.
  [[nodiscard]] Tensor value() const;

 private:
  float clip_;
  const ModelGroups& groups_;
  Buffer norm_, sum_, exact_;  // (1) f32, (1) f64, ops::exact_sum_words u64
  ops::SquaresTable counted_;
};

// Dynamic loss scale: a factor keeps gradients from underflowing in f16; it falls when a step
// overflows and grows after many that did not (Micikevicius et al., "Mixed precision training",
// ICLR 2018). It is on the device, and every rank sees the same gradient norm, so no host and no
// collective decides about it.
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
