// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/layers/blocks.h"
#include "models/spatial/slab_sum.h"
#include "runtime/ops/norm/batch_norm.h"

namespace trireme {

// part(3, C) f32: mean, biased variance and number of values of each channel of an image.
void write_statistics(const Context& context, const Tensor& part, const Tensor& x);

// Batch normalisation of an NHWC or NDHWC tensor with an optional fused ReLU. Training uses the
// micro-batch's statistics, also with spatial parallelism: each slab's, joined in order. The
// running statistics are parameters of kind `statistic`: means over all micro-batches of the global
// batch, so they do not depend on the number of ranks.
class BatchNorm {
 public:
  // Declares "<name>.weight", "<name>.bias", "<name>.running_mean", "<name>.running_variance"
  // (channels).
  BatchNorm(Blueprint& blueprint, std::string_view name, const Shape& input, bool relu,
            float initial_scale = 1.0F);

  // y = normalised x (+ summand), then ReLU if configured.
  void forward(const Context& context, const Tensor& y, const Tensor& x,
               const ops::BatchNormSummand& summand = {}) const;
  // Describes normalised x as a summand of another batch norm, which computes it on the fly.
  [[nodiscard]] ops::BatchNormSummand as_summand(const Context& context, const Tensor& x) const {
    return {.x = as_image(x), .channels = take_statistics(context, as_image(x))};
  }
  // dx may alias dy unless forward had a summand: then `sum` is the summand's y, and dy becomes the
  // summand's gradient.
  void backward(const Context& context, const Tensor& dx, const Tensor& dy, const Tensor& x,
                const Tensor& sum = {}) const;

 private:
  // The statistics that normalise x: its own in training, otherwise the running ones.
  [[nodiscard]] ops::BatchNormChannels take_statistics(const Context& context,
                                                       const Tensor& x) const;
  [[nodiscard]] ops::NormParts gradient_sums(const Context& context, const Tensor& dy,
                                             const Tensor& x,
                                             const ops::BatchNormChannels& channels,
                                             const ops::BatchNormOptions& options) const;

  Slabs slabs_;
  ops::BatchNormOptions options_;
  ParamId weight_, bias_, running_mean_, running_variance_;
  Activation mean_, variance_;
  SlabParts statistics_, sums_;  // (slabs, 3, C), (slabs, 2, C)
};

}  // namespace trireme
