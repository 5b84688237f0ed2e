// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "runtime/nn/layer.h"
#include "runtime/ops/random/augment.h"

namespace trireme {

// How the pictures of a micro-batch are mixed: drawn alike by the layer that mixes them and by the
// one that mixes their labels, wherever a pipeline cuts.
class MixChoices {
 public:
  MixChoices(Blueprint& blueprint, const ops::MixOptions& options);

  // Whether this pass mixes: in training alone.
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

// What stands first in a model of images: u8 or f32 pictures (B, H, W, C) -> augmented, normalised
// and, where that is asked for, mixed.
class ImageInput {
 public:
  ImageInput(Blueprint& blueprint, const Shape& image, const ops::AugmentOptions& augment);

  void forward(const Context& context, const Tensor& y, const Tensor& x) const;

 private:
  ops::AugmentOptions augment_;
  MixChoices mix_;
  Activation plain_{};  // before they are mixed
};

// Cross-entropy of logits (B, classes) against the labels of the batch, mixed as its pictures are,
// with its weights of samples: what ends a model of images. Logits become their gradient in
// training.
class ClassLoss {
 public:
  ClassLoss(Blueprint& blueprint, const ops::MixOptions& mix) : mix_(blueprint, mix) {}

  void forward(const Context& context, const Tensor& logits) const;

 private:
  MixChoices mix_;
};

}  // namespace trireme
