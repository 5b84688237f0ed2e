// SPDX-License-Identifier: Apache-2.0
// A whole model of one linear layer, to test what comes behind it.
#pragma once

#include <functional>

#include "models/fields/pixel_loss.h"
#include "models/fields/value_loss.h"
#include "models/layers/linear_layer.h"

namespace trireme::test {

// inputs (..., features) f32 -> outputs -> the loss.
template <typename Loss>
class LinearHead final : public Layer {
 public:
  LinearHead(Blueprint& blueprint, const Shape& outputs, std::int64_t features, Loss loss)
      : Layer("head", Shape{}),
        linear_(blueprint, "linear", features, outputs.back(), Init::normal(0.7F)),
        loss_(std::move(loss)) {
    info_ = loss_.head(blueprint.keep(outputs));
  }
  [[nodiscard]] const HeadInfo* head() const override { return &info_; }
  void forward(const Context& context, const Tensor& x, const Tensor& /*y*/) override {
    linear_.forward(context, context(info_.logits), x);
    loss_.forward(context, context(info_.logits));
  }
  void backward(const Context& context, const Tensor& x, const Tensor& /*y*/, const Tensor& /*dy*/,
                const Tensor& /*dx*/) override {
    linear_.backward_weight(context, context(info_.logits), x);
  }

 private:
  HeadInfo info_;
  Linear linear_;
  Loss loss_;
};

// `outputs`: (B, ..., K).
template <typename Loss>
[[nodiscard]] Chain linear_chain(const Shape& outputs, std::int64_t features,
                                 std::function<Loss(Blueprint&)> loss) {
  return {{.make = [=](Blueprint& blueprint) -> std::unique_ptr<Layer> {
    return std::make_unique<LinearHead<Loss>>(blueprint, outputs, features, loss(blueprint));
  }}};
}

}  // namespace trireme::test
