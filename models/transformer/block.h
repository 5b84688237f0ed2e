// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "models/layers/dropout.h"
#include "models/layers/norm.h"
#include "models/layers/row_linear.h"
#include "models/transformer/attention.h"
#include "models/transformer/feed_forward.h"

namespace trireme {

// Pre-norm transformer block: r = x + attention(norm(x)); y = r + mlp(norm(r)); with branch_norms
// each branch's output is normalised before it is added; without pre_norms its input is not. (B, T,
// C) -> (B, T, C). Tensor parallel as in Megatron-LM (Shoeybi et al., 2019): a tensor block holds 1
// / V of the heads and of the wide activations; n of the V blocks are on this rank.
class TransformerBlock final : public Layer {
 public:
  TransformerBlock(Blueprint& blueprint, const TransformerOptions& options, std::int64_t index);

  [[nodiscard]] bool backward_in_place() const override { return true; }
  [[nodiscard]] bool splits_backward() const override { return true; }
  [[nodiscard]] int forward_parts() const override { return attention_.forward_parts(); }
  [[nodiscard]] int backward_parts() const override {
    return attention_.backward_parts(recomputes_);
  }
  void add_limits(ModelLimits& limits) const override;
  void forward(const Context& context, const Tensor& x, const Tensor& y) override;
  void backward(const Context& context, const Tensor& x, const Tensor& y, const Tensor& dy,
                const Tensor& dx) override;
  void backward_weight(const Context& context, const Tensor& x) override;

 private:
  // The norm after a branch.
  struct BranchNorm {
    BranchNorm(Blueprint& blueprint, std::string_view name, const NormStyle& style,
               const RowSplit& rows);
    Norm norm;
    Activation branch;    // local rows: the norm's input
    Activation gradient;  // local rows; kept if weight gradients come later
  };
  void reserve(Blueprint& blueprint);
  // The largest magnitude of a matmul operand is known if one rank writes all its rows and values:
  // then returns `amax`, else absent.
  [[nodiscard]] Tensor whole_amax(const Tensor& amax) const {
    return rows_.split() ? Tensor{} : amax;
  }
  [[nodiscard]] Tensor middle_gradient_amax(const Context& context) const;
  // `amax`, for the gradient that `norm` passes to a branch, or absent.
  [[nodiscard]] static Tensor branch_amax(const BranchNorm& norm, const Dropout& dropout,
                                          const Tensor& amax);
  // Where all rows of a branch's input are, if they are not x itself.
  [[nodiscard]] Tensor operand(const Context& context, const Activation& normed,
                               const Tensor& x) const;
  // All rows of x, normalised if there is a norm.
  [[nodiscard]] Tensor normalize(const Context& context, const std::optional<Norm>& norm,
                                 const Activation& normed, const Tensor& x,
                                 const Tensor& amax) const;
  // gradient += that of `norm`'s input x.
  static void add_gradient(const Context& context, const std::optional<Norm>& norm,
                           const Tensor& gradient, const Tensor& dnormed, const Tensor& x,
                           const Tensor& amax = {});
  // out = residual + dropout(branch), or residual + norm(dropout(branch)); write(to, residual)
  // writes the branch.
  template <typename Write>
  void project(const Context& context, const Write& write, const Dropout& dropout,
               const std::optional<BranchNorm>& norm, const Tensor& out,
               const Tensor& residual) const;
  // From the gradient of a branch's output, local rows, to that of its last product, all rows.
  [[nodiscard]] Tensor backward_branch(const Context& context, const Dropout& dropout,
                                       const std::optional<BranchNorm>& norm,
                                       const Tensor& gradient, const Tensor& amax) const;
  void backward_mlp(const Context& context, const Tensor& gradient) const;
  void backward_attention(const Context& context, const Tensor& x, const Tensor& gradient) const;
  void backward_output(const Context& context, const Tensor& gradient) const;

  std::string context_name_;
  bool gated_mlp_;
  RowSplit rows_;
  bool split_backward_, recomputes_;
  PartialSum sum_;
  std::optional<Norm> norm1_;
  SelfAttention attention_;
  RowLinear output_;
  std::optional<BranchNorm> attention_norm_;
  std::optional<Norm> norm2_;
  std::unique_ptr<FeedForward> mlp_;
  std::optional<BranchNorm> mlp_norm_;
  Dropout attention_dropout_, mlp_dropout_;
  Activation middle_{};               // local rows
  Activation normed1_{}, normed2_{};  // all rows (B, T, C); of rank 0: the residual stream's
  // Gradients. Those of the two halves share memory unless weight gradients come later.
  Activation dnormed2_, dattended_, dprojected_, dnormed1_;
  Activation dbranch_{};  // local rows, with branch norms
};

}  // namespace trireme
