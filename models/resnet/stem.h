// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "models/heads/head_loss.h"
#include "models/images/image_input.h"
#include "models/layers/batch_norm.h"
#include "models/layers/convolution.h"
#include "models/layers/linear_layer.h"
#include "models/resnet/resnet.h"
#include "runtime/ops/convolution/pooling.h"

namespace trireme {

// u8 or f32 images -> augmented, normalised -> convolution, batch norm, ReLU (, max-pool).
class ResNetStem final : public Layer {
 public:
  ResNetStem(Blueprint& blueprint, const ResNetOptions& options,
             const ops::AugmentOptions& augment);

  void forward(const Context& context, const Tensor& x, const Tensor& y) override;
  void backward(const Context& context, const Tensor& x, const Tensor& y, const Tensor& dy,
                const Tensor& dx) override;

 private:
  ImageInput input_;
  Activation image_;
  Convolution convolution_;
  BatchNorm norm_;
  Activation convolved_;
  Activation normed_;                     // forward: the pooling's input; backward: its gradient
  std::optional<Activation> pool_index_;  // present with the imagenet stem
};

// Global average pool, fully connected layer, cross-entropy. (B, H, W, C) -> losses of the context.
class ResNetHead final : public Layer {
 public:
  ResNetHead(Blueprint& blueprint, const HeadChoice& head, const ops::MixOptions& mix);

  [[nodiscard]] const HeadInfo* head() const override { return &info_; }
  void forward(const Context& context, const Tensor& x, const Tensor& y) override;
  void backward(const Context& context, const Tensor& x, const Tensor& y, const Tensor& dy,
                const Tensor& dx) override;

 private:
  Linear linear_;
  HeadLoss loss_;
  HeadInfo info_;
  Activation pooled_, dpooled_;
};

}  // namespace trireme
