// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/spatial/slab_sum.h"
#include "runtime/ops/norm/group_norm.h"

namespace trireme {

// Group normalisation of (N, [D,] H, W, C) with an optional fused ReLU. A group for each channel is
// instance normalisation. Training and evaluation are the same. Statistics are of whole samples,
// also with spatial parallelism: each slab's, joined in order.
class GroupNorm {
 public:
  // Declares "<name>.weight" and "<name>.bias" (channels). `groups` divides the channels.
  GroupNorm(Blueprint& blueprint, std::string_view name, const Shape& input, std::int64_t groups,
            bool relu);

  void forward(const Context& context, const Tensor& y, const Tensor& x) const;
  // dx may alias dy. Accumulates and reports the parameter gradients.
  void backward(const Context& context, const Tensor& dx, const Tensor& dy, const Tensor& x) const;

 private:
  [[nodiscard]] ops::NormParts gradient_sums(const Context& context, const Tensor& dy,
                                             const Tensor& x) const;
  // Of a sample.
  [[nodiscard]] std::int64_t pixels() const { return slabs_.whole().rows() / slabs_.whole()[0]; }
  [[nodiscard]] ops::BatchNormChannels channels(const Context& context) const;

  Slabs slabs_;
  ops::GroupNormOptions options_;
  ParamId weight_, bias_;
  Activation mean_, variance_;   // (N, C) f32
  SlabParts statistics_, sums_;  // (slabs, 3 N, C), (slabs, 2 N, C)
};

}  // namespace trireme
