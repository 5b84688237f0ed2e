// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "runtime/nn/layer.h"
#include "runtime/ops/random/augment.h"

namespace trireme {

// The mixing of a micro-batch's images. The layers that mix images and labels draw the same choices
// on any pipeline stage.
class MixChoices {
 public:
  MixChoices(Blueprint& blueprint, const ops::MixOptions& options);

  // Whether this pass mixes: only in training.
  [[nodiscard]] bool active(const Context& context) const {
    return context.training && options_.mixes();
  }
  struct Drawn {
    Tensor shares, boxes;
  };
  [[nodiscard]] Drawn draw(const Context& context) const;

 private:
  ops::MixOptions options_;
  Activation shares_{}, boxes_{};
};

// The first layer of an image model: u8 or f32 images (B, H, W, C) -> augmented, normalised and
// optionally mixed.
class ImageInput {
 public:
  ImageInput(Blueprint& blueprint, const Shape& image, const ops::AugmentOptions& augment);

  void forward(const Context& context, const Tensor& y, const Tensor& x) const;

 private:
  ops::AugmentOptions augment_;
  MixChoices mix_;
  Activation plain_{};  // before mixing
};

// The end of an image model: cross-entropy of logits (B, classes) against the batch's labels, mixed
// like the images, with sample weights. In training, logits are overwritten by their gradient.
class ClassLoss {
 public:
  ClassLoss(Blueprint& blueprint, const ops::MixOptions& mix) : mix_(blueprint, mix) {}

  void forward(const Context& context, const Tensor& logits) const;

 private:
  MixChoices mix_;
};

}  // namespace trireme
