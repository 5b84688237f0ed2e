// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/layers/blocks.h"
#include "runtime/nn/layer.h"
#include "runtime/ops/norm/batch_norm.h"

namespace trireme {

// Batch normalisation of an NHWC or NDHWC tensor with an optional fused ReLU. Training uses the
// micro-batch's statistics, also where samples are cut in space: each slab's, joined in order. The
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
  // summand's gradient; not if the tensor is cut.
  void backward(const Context& context, const Tensor& dx, const Tensor& dy, const Tensor& x,
                const Tensor& sum = {}) const;

 private:
  // The statistics that normalise x: its own in training, otherwise the running ones.
  [[nodiscard]] ops::BatchNormChannels take_statistics(const Context& context,
                                                       const Tensor& x) const;
  // This rank's rows of a tensor with one for each slab, which it gathers from all ranks.
  [[nodiscard]] Tensor own_parts(const Tensor& parts) const;
  void gather_parts(const Context& context, const Tensor& parts) const;
  [[nodiscard]] ops::BatchNormSums gradient_sums(const Context& context, const Tensor& dy,
                                                 const Tensor& x,
                                                 const ops::BatchNormChannels& channels) const;

  Slabs slabs_;
  int rank_;
  ops::BatchNormOptions options_;
  ParamId weight_, bias_, running_mean_, running_variance_;
  Activation mean_, variance_;
  Activation statistics_{}, sums_{};  // (slabs, 3, C), (slabs, 2, C), of all ranks
};

}  // namespace trireme
