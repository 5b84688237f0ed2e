// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/gpt/gpt.h"
#include "models/layers/layer_norm.h"

namespace trireme {

// Final norm, tied output projection and cross-entropy. (B, T, C) -> losses of the context.
class GptHead final : public Layer {
 public:
  GptHead(Blueprint& blueprint, const GptOptions& options);

  [[nodiscard]] HeadInfo info() const;
  [[nodiscard]] double forward_flops() const override;
  void forward(const Context& context, const Tensor& x, const Tensor& y) override;
  void backward(const Context& context, const Tensor& x, const Tensor& y, const Tensor& dy,
                const Tensor& dx) override;

 private:
  GptOptions options_;
  std::int64_t rows_;
  LayerNorm norm_;
  ParamId tokens_;  // tied: the embedding reports its gradient
  Activation normed_, logits_, dnormed_;
};

}  // namespace trireme
