// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/heads/head_options.h"
#include "models/images/image_input.h"

namespace trireme {

// The end of a model that predicts classes, labels or values of samples or tokens: the loss of
// logits (N, outputs) against the batch's targets, with sample weights. In training, logits are
// overwritten by their gradient.
class HeadLoss {
 public:
  // `mix`: of images with classes.
  HeadLoss(Blueprint& blueprint, const HeadChoice& head, const ops::MixOptions& mix = {});

  // `logits`: where the head keeps them.
  [[nodiscard]] HeadInfo head(const Activation& logits) const;
  void forward(const Context& context, const Tensor& logits) const;

 private:
  HeadChoice choice_;
  ClassLoss classes_;
  std::optional<ValueLoss> values_{};
};

}  // namespace trireme
