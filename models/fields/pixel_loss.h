// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "models/spatial/sample_gather.h"

namespace trireme {

// The end of a model that classifies each pixel: cross-entropy of logits (B, H, W, classes) or
// (B, D, H, W, classes) against the batch's targets, with weights of samples and of classes; with
// `dice` ops::dice_cross_entropy. The loss is the mean over the counted pixels, not divided by the
// sum of weights. In training, logits are overwritten by their gradient. Where samples are cut in
// space, every rank gathers the logits and computes the loss of all pixels.
class PixelLoss {
 public:
  // `pixels`: (H, W) or (D, H, W). class_weights: one per class; empty: 1.
  PixelLoss(Blueprint& blueprint, const Shape& pixels, std::int64_t classes,
            std::vector<float> class_weights = {}, bool dice = false);

  // `logits`: where the head keeps them, (B, H, W, classes) or (B, D, H, W, classes).
  [[nodiscard]] HeadInfo head(const Activation& logits) const;
  void forward(const Context& context, const Tensor& logits) const;

 private:
  std::int64_t samples_, pixels_, classes_;
  std::vector<float> class_weights_;
  bool dice_;
  Activation weights_{};  // (classes) f32, if there are any
  std::optional<SampleGather> gather_{};
  Activation whole_{};  // logits, if they are cut
};

}  // namespace trireme
