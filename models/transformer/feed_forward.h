// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "models/layers/partial_sum.h"
#include "models/transformer/transformer.h"

namespace trireme {

// The second branch of a block, between its norm and its residual sum: an MLP (mlp.h), or a mixture
// of experts (expert_mlp.h).
class FeedForward {
 public:
  virtual ~FeedForward() = default;

  // Memory that is free outside of this branch's passes; valid only inside backward.
  [[nodiscard]] virtual const Activation& spare() const = 0;
  // For the writer of the normalised rows: destination of their largest magnitude, or absent.
  [[nodiscard]] virtual Tensor amax(const Context& context) const = 0;
  // The same for the gradient of this branch's output.
  [[nodiscard]] virtual Tensor gradient_amax(const Context& context) const = 0;

  // Up to the last product. normed: all rows.
  virtual void forward(const Context& context, const Tensor& normed,
                       const Tensor& normed_amax) const = 0;
  // out, local rows, = residual + the branch's output; the residual may be absent.
  virtual void project(const Context& context, const Tensor& out, const Tensor& residual,
                       const Tensor& normed) const = 0;
  // Recomputes the activated rows, if they are not kept.
  virtual void activate_again(const Context& context) const = 0;
  // From the gradient of the branch's output, all rows, to the local rows of the normalised input.
  // gradient_amax: its largest magnitude, if known.
  virtual void backward(const Context& context, const Tensor& dnormed, const Tensor& gradient,
                        const Tensor& normed, const Tensor& gradient_amax) const = 0;
  virtual void backward_weight(const Context& context, const Tensor& gradient,
                               const Tensor& normed) const = 0;

  virtual void add_limits(ModelLimits& limits) const = 0;

 protected:
  FeedForward() = default;
  FeedForward(const FeedForward&) = default;
  FeedForward& operator=(const FeedForward&) = default;
};

// Declares the branch of these options below "mlp".
[[nodiscard]] std::unique_ptr<FeedForward> make_feed_forward(Blueprint& blueprint,
                                                             const TransformerOptions& options,
                                                             const PartialSum& sum);

}  // namespace trireme
