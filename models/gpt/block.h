// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/gpt/gpt.h"
#include "models/layers/layer_norm.h"
#include "models/layers/linear.h"

namespace trireme {

// Pre-norm transformer block: r = x + attention(norm(x)); y = r + mlp(norm(r)). (B, T, C) -> (B, T,
// C).
class GptBlock final : public Layer {
 public:
  GptBlock(Blueprint& blueprint, const GptOptions& options, std::int64_t index);

  [[nodiscard]] double forward_flops() const override;
  [[nodiscard]] bool backward_in_place() const override { return true; }
  void forward(const Context& context, const Tensor& x, const Tensor& y) override;
  void backward(const Context& context, const Tensor& x, const Tensor& y, const Tensor& dy,
                const Tensor& dx) override;

 private:
  // out = residual + dropout(branch(in)).
  void project(const Context& context, const Linear& branch, const Tensor& out, const Tensor& in,
               const Tensor& residual, std::uint64_t site) const;
  // The gradient that enters a branch: dropout's mask on dy, or dy itself.
  [[nodiscard]] Tensor branch_gradient(const Context& context, const Tensor& dy,
                                       std::uint64_t site) const;

  GptOptions options_;
  std::int64_t rows_;  // B * T
  std::uint64_t attention_site_, mlp_site_;
  LayerNorm norm1_;
  Linear qkv_, output_;
  LayerNorm norm2_;
  Linear expand_, contract_;
  Activation normed1_, qkv_out_, lse_, attended_, middle_, normed2_, expanded_, activated_;
  Activation wide_, narrow_, dropped_;
};

}  // namespace trireme
