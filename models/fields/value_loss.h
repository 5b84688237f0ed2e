// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/config/config.h"
#include "runtime/nn/layer.h"
#include "runtime/ops/loss/value_loss.h"

namespace trireme {

// What a head makes of its last layer's outputs.
enum class OutputTransform : std::uint8_t { none, tanh };
[[nodiscard]] constexpr auto names_of(OutputTransform /*key*/) {
  return std::to_array<Named<OutputTransform>>(
      {{OutputTransform::none, "none"}, {OutputTransform::tanh, "tanh"}});
}

struct ValueLossChoice {
  ops::ValueLossKind kind = ops::ValueLossKind::mse;
  float delta = 1.0F;  // of huber
  OutputTransform transform = OutputTransform::none;
  float scale = 1.0F;  // of tanh: predictions lie between -scale and scale
};

// With the loss of a resolved config.
[[nodiscard]] ValueLossChoice value_loss_choice(const TrainConfig& train, OutputTransform transform,
                                                float scale);

// The end of a model that predicts values: the loss of outputs (B, K) against the batch's targets,
// with sample weights. In training, outputs are overwritten by their gradient, that of the
// transform included; otherwise by the predictions.
class ValueLoss {
 public:
  ValueLoss(Blueprint& blueprint, std::int64_t values, const ValueLossChoice& choice);

  // `outputs`: where the head keeps them, (B, K).
  [[nodiscard]] HeadInfo head(const Activation& outputs) const {
    return {.targets = shape_.count(), .logits = outputs, .kind = TargetKind::values};
  }
  void forward(const Context& context, const Tensor& outputs) const;

 private:
  ValueLossChoice choice_;
  Shape shape_;               // (B, K)
  Activation predictions_{};  // (B, K): with a transform
};

}  // namespace trireme
