// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/gpt/gpt.h"
#include "models/layers/column_linear.h"
#include "models/layers/dropout.h"
#include "models/layers/layer_norm.h"
#include "models/layers/row_linear.h"

namespace trireme {

// Pre-norm transformer block: r = x + attention(norm(x)); y = r + mlp(norm(r)). (B, T, C) -> (B, T,
// C). Tensor parallel as in Megatron-LM (Shoeybi et al., 2019): a block of tensors holds heads / V
// of the heads and 4 C / V of the wide activations, with n of the V blocks on this rank.
class GptBlock final : public Layer {
 public:
  GptBlock(Blueprint& blueprint, const GptOptions& options, std::int64_t index);

  [[nodiscard]] double forward_flops() const override;
  [[nodiscard]] bool backward_in_place() const override { return true; }
  [[nodiscard]] bool splits_backward() const override { return true; }
  void add_limits(ModelLimits& limits) const override;
  void forward(const Context& context, const Tensor& x, const Tensor& y) override;
  void backward(const Context& context, const Tensor& x, const Tensor& y, const Tensor& dy,
                const Tensor& dx) override;
  void backward_weight(const Context& context, const Tensor& x) override;

 private:
  void reserve(Blueprint& blueprint);
  // All rows of the normalised x.
  void normalize(const Context& context, const LayerNorm& norm, const Tensor& normed,
                 const Tensor& x) const;
  void attend(const Context& context) const;
  void activate_again(const Context& context) const;
  // out = residual + dropout(branch(in)).
  void project(const Context& context, const RowLinear& branch, const Dropout& dropout,
               const Tensor& out, const Tensor& in, const Tensor& residual) const;
  void backward_mlp(const Context& context, const Tensor& gradient) const;
  void backward_attention(const Context& context, const Tensor& x, const Tensor& gradient) const;

  RowSplit rows_;
  std::int64_t blocks_;       // n
  std::int64_t block_heads_;  // of one tensor block
  bool split_backward_, recomputes_;
  PartialSum sum_;
  LayerNorm norm1_;
  ColumnLinear qkv_;
  RowLinear output_;
  LayerNorm norm2_;
  ColumnLinear expand_;
  RowLinear contract_;
  Dropout attention_dropout_, mlp_dropout_;
  // normed: all rows (B, T, C); middle: local rows. The others begin with the local blocks:
  // qkv (n, B, T, 3C/V), lse (n, B, H/V, T), attended (n, B, T, C/V), wide ones (n, B, T, 4C/V).
  Activation normed1_, qkv_out_, lse_, attended_, middle_, normed2_, expanded_, activated_;
  // Gradients. Unless weight gradients come later those of the two halves share memory.
  Activation dexpanded_, dnormed2_, dattended_, dqkv_, dnormed1_;
};

}  // namespace trireme
