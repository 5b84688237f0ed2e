// SPDX-License-Identifier: Apache-2.0
// The norm of the gradients of all weights on all ranks, each counted once, and the factor that
// clips it. The factor also divides by the loss scale.
#pragma once

#include "runtime/ops/update/update_table.h"
#include "runtime/optim/gradient_transform.h"
#include "runtime/optim/optimizer_ranks.h"

namespace trireme {

class GradientNorm final : public GradientTransform {
 public:
  // `clip`: the largest norm; 0: any. The groups of `ranks` must outlive this.
  GradientNorm(Device& device, const ParamStore& params, float clip,
               const OptimizerRanks& ranks = {});

  // Reads partial sum 0 of the gradients. A norm that is not finite makes the gradient scale 0.
  void apply(Stream& stream, const ParamStore& params, const GradientStep& step) override;
  // (1) f32 on the device: the last step's norm before clipping, without the loss scale.
  [[nodiscard]] Tensor value() const;

 private:
  float clip_;
  OptimizerGroups groups_;
  Buffer norm_, sum_, exact_;  // (1) f32, (1) f64, ops::exact_sum_words u64
  ops::SquaresTable counted_;
};

}  // namespace trireme
