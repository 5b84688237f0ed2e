// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/layers/column_linear.h"
#include "models/layers/row_linear.h"
#include "models/transformer/feed_forward.h"
#include "runtime/device/work_log.h"

namespace trireme {

// An MLP: an activation of one product, which computes gelu_tanh itself if it can; or gated, with
// the two products as one matrix (gates, then values). A tensor block has intermediate / V of the
// wide activations; n blocks are local.
class Mlp final : public FeedForward {
 public:
  // Declares "expand" and "contract".
  Mlp(Blueprint& blueprint, const TransformerOptions& options, const PartialSum& sum);

  [[nodiscard]] const Activation& spare() const override { return dexpanded_; }
  [[nodiscard]] Tensor amax(const Context& context) const override {
    return expand_.x_amax(context);
  }
  [[nodiscard]] Tensor gradient_amax(const Context& context) const override {
    return contract_.dy_amax(context);
  }

  void forward(const Context& context, const Tensor& normed,
               const Tensor& normed_amax) const override;
  void project(const Context& context, const Tensor& out, const Tensor& residual,
               const Tensor& /*normed*/) const override {
    contract_.forward(context, out, context(activated_), residual, contract_.x_amax(context));
  }
  void activate_again(const Context& context) const override {
    const RepeatedWork repeated;
    activate(context, {});
  }
  void backward(const Context& context, const Tensor& dnormed, const Tensor& gradient,
                const Tensor& normed, const Tensor& gradient_amax) const override;
  void backward_weight(const Context& context, const Tensor& gradient,
                       const Tensor& normed) const override;

  void add_limits(ModelLimits& limits) const override;

 private:
  void activate(const Context& context, const Tensor& amax) const;

  bool gated_, fusible_;
  ops::ActivationKind activation_;
  Extent intermediate_;
  std::int64_t blocks_;  // n
  ColumnLinear expand_;
  RowLinear contract_;
  // expanded (n, B, T, F / V), or twice as wide if gated; activated (n, B, T, F / V).
  Activation expanded_, activated_, dexpanded_;
  Activation dactivated_{};  // if gated
};

}  // namespace trireme
