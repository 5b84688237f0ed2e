// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/images/image_input.h"
#include "models/layers/linear_layer.h"
#include "models/resnet/resnet.h"

namespace trireme {

// Global average pool, fully connected layer, cross-entropy. (B, H, W, C) -> losses of the context.
class ResNetHead final : public Layer {
 public:
  ResNetHead(Blueprint& blueprint, std::int64_t classes, const ops::MixOptions& mix);

  [[nodiscard]] const HeadInfo* head() const override { return &info_; }
  [[nodiscard]] double forward_flops() const override {
    return linear_.forward_flops(pooled_.shape[0]);
  }
  void forward(const Context& context, const Tensor& x, const Tensor& y) override;
  void backward(const Context& context, const Tensor& x, const Tensor& y, const Tensor& dy,
                const Tensor& dx) override;

 private:
  HeadInfo info_;
  Linear linear_;
  ClassLoss loss_;
  Activation pooled_, dpooled_;
};

}  // namespace trireme
