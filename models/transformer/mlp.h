// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/layers/column_linear.h"
#include "models/layers/row_linear.h"
#include "models/transformer/transformer.h"

namespace trireme {

// The second branch of a block, from the normalised rows to the input of its last product: an
// activation of one product, which computes gelu_tanh itself if it can; or gated, with the two
// products as one matrix (gates, then values). A tensor block has intermediate / V of the wide
// activations; n blocks are local.
class Mlp {
 public:
  // Declares "mlp.expand" and "mlp.contract".
  Mlp(Blueprint& blueprint, const TransformerOptions& options, const PartialSum& sum);

  [[nodiscard]] const RowLinear& contract() const { return contract_; }
  [[nodiscard]] Tensor activated(const Context& context) const { return context(activated_); }
  // The gradient of `expanded`; valid only inside backward, or kept for a split one.
  [[nodiscard]] const Activation& dexpanded() const { return dexpanded_; }

  // For the writer of the normalised rows: destination of their largest magnitude, or absent.
  [[nodiscard]] Tensor amax(const Context& context) const { return expand_.x_amax(context); }
  // The largest magnitudes of `activated`, from forward.
  [[nodiscard]] Tensor activated_amax(const Context& context) const {
    return contract_.x_amax(context);
  }

  void forward(const Context& context, const Tensor& normed, const Tensor& normed_amax) const;
  // Recomputes `activated`, if it is not kept.
  void activate_again(const Context& context) const { activate(context, {}); }
  // From the gradient of the last product's output, all rows, to the local rows of the normalised
  // input. gradient_amax: its largest magnitude, if known.
  void backward(const Context& context, const Tensor& dnormed, const Tensor& gradient,
                const Tensor& normed, const Tensor& gradient_amax = {}) const;
  void backward_weight(const Context& context, const Tensor& gradient, const Tensor& normed) const;

  void add_limits(ModelLimits& limits) const;
  [[nodiscard]] double forward_flops() const {
    return expand_.forward_flops() + contract_.forward_flops();
  }

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
