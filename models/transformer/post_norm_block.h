// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/layers/dropout.h"
#include "models/layers/norm.h"
#include "models/layers/row_linear.h"
#include "models/transformer/attention.h"
#include "models/transformer/feed_forward.h"

namespace trireme {

// The block of the original transformer (Vaswani et al., 2017) and of BERT, which normalises sums:
// m = norm1(x + attention(x)); y = norm2(m + mlp(m)). (B, T, C) -> (B, T, C). Parameters and tensor
// blocks are those of TransformerBlock.
class PostNormBlock final : public Layer {
 public:
  PostNormBlock(Blueprint& blueprint, const TransformerOptions& options, std::int64_t index);

  [[nodiscard]] bool backward_in_place() const override { return true; }
  [[nodiscard]] bool splits_backward() const override { return true; }
  void add_limits(ModelLimits& limits) const override;
  void forward(const Context& context, const Tensor& x, const Tensor& y) override;
  void backward(const Context& context, const Tensor& x, const Tensor& y, const Tensor& dy,
                const Tensor& dx) override;
  void backward_weight(const Context& context, const Tensor& x) override;

 private:
  // A branch and the norm after it.
  struct Branch {
    Branch(Blueprint& blueprint, std::string_view name, const TransformerOptions& options,
           const RowSplit& rows);
    Dropout dropout;
    Activation sum;              // local rows: the norm's input
    Activation normed_gradient;  // local rows; kept if weight gradients come later
  };
  // Returns the gradient of the sum before the norm, from the gradient after it.
  Tensor backward_norm(const Context& context, const Norm& norm, const Branch& branch,
                       const Tensor& gradient, const Tensor& amax) const;
  // `amax` if the branch's last product gets the norm's gradient unchanged, else absent.
  [[nodiscard]] static Tensor branch_amax(const Norm& norm, const Branch& branch,
                                          const Tensor& amax) {
    return norm.measures_gradient() && branch.dropout.keeps_gradient() ? amax : Tensor{};
  }
  // All rows of x, from forward.
  [[nodiscard]] Tensor whole_input(const Context& context, const Tensor& x) const;

  std::string context_name_;
  RowSplit rows_;
  bool split_backward_, recomputes_;
  PartialSum sum_;
  SelfAttention attention_;
  RowLinear output_;
  Norm norm1_;
  std::unique_ptr<FeedForward> mlp_;
  Norm norm2_;
  Branch first_, second_;
  Activation input_{};  // (B, T, C), if x has only some rows
  Activation middle_;   // (B, T, C): all rows between the branches
  Activation dsum_, dattended_, dprojected_;
};

}  // namespace trireme
