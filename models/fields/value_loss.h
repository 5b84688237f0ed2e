// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "models/spatial/sample_gather.h"
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

// The end of a model that predicts values, or a map of them: the loss of outputs (B, K) or
// (B, [D,] H, W, K) against the batch's targets, with sample weights. In training, outputs are
// overwritten by their gradient, that of the transform included; otherwise by the predictions.
// With spatial parallelism every rank gathers the outputs and computes the loss of all.
class ValueLoss {
 public:
  // `sample`: (K), (H, W, K) or (D, H, W, K).
  ValueLoss(Blueprint& blueprint, const Shape& sample, const ValueLossChoice& choice);

  // `outputs`: where the head keeps them.
  [[nodiscard]] HeadInfo head(const Activation& outputs) const {
    return {.targets = shape_.count(),
            .logits = gather_ ? whole_ : outputs,
            .kind = TargetKind::values};
  }
  void forward(const Context& context, const Tensor& held) const;

 private:
  ValueLossChoice choice_;
  Shape shape_;               // (B, values of a sample)
  Activation predictions_{};  // (B, values): with a transform
  std::optional<SampleGather> gather_{};
  Activation whole_{};  // outputs, if they are cut
};

}  // namespace trireme
