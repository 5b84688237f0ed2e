// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "models/layers/sample_gather.h"
#include "runtime/ops/loss/cross_entropy.h"

namespace trireme {

// The end of a model that classifies each pixel: cross-entropy of logits (B, H, W, classes) or
// (B, D, H, W, classes) against the batch's targets, with weights of samples and of classes. The
// loss is the mean over the counted pixels, not divided by the sum of weights. In training, logits
// are overwritten by their gradient. Logits that are cut in space are gathered in evaluation, the
// losses of pixels in training.
class PixelLoss {
 public:
  // `pixels`: (H, W) or (D, H, W). class_weights: one per class; empty: 1.
  PixelLoss(Blueprint& blueprint, const Shape& pixels, std::int64_t classes,
            std::vector<float> class_weights = {});

  // `logits`: where the head keeps them, (B, H, W, classes) or (B, D, H, W, classes).
  [[nodiscard]] HeadInfo head(const Activation& logits) const;
  void forward(const Context& context, const Tensor& logits) const;

 private:
  // Memory of a model whose samples are cut.
  struct Cut {
    SampleGather logits, pixels;                // (N, axes, classes), (N, axes, 1)
    Activation whole{};                         // logits of evaluation
    Activation losses{}, correct{}, targets{};  // of the own slabs
  };
  void forward_slabs(const Context& context, const Tensor& logits) const;
  [[nodiscard]] ops::CrossEntropyOptions options(const Context& context) const;

  std::int64_t samples_, pixels_, classes_;
  std::vector<float> class_weights_;
  Activation weights_{};  // (classes) f32, if there are any
  std::optional<Cut> cut_{};
};

}  // namespace trireme
