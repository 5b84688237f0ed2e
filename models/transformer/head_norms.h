// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/transformer/query_key_norms.h"
#include "runtime/ops/norm/head_norm.h"

namespace trireme {

// RMS normalisation of each query and key head. All heads share a scale (D), so its gradient is
// summed over the tensor blocks, then over the tensor ranks.
class HeadNorms final : public QueryKeyNorms {
 public:
  // `options` are for one tensor block; `packed`: the projection's shape.
  HeadNorms(Blueprint& blueprint, const ops::HeadNormOptions& options, const Shape& packed);

  void forward(const Context& context, const Tensor& y, const Tensor& x) const override;
  void backward(const Context& context, const Tensor& dy, const Tensor& x) const override;
  void backward_weight(const Context& context) const override;

 private:
  ops::HeadNormOptions options_;
  std::int64_t blocks_;
  Shape block_;       // (B, T, (heads + 2 kv_heads) * D)
  Shape statistics_;  // (B, T, heads + kv_heads)
  Shape scales_;      // (2, D)
  bool split_backward_;
  ParamId query_, key_;
  Activation rstd_;     // (n, B, T, heads + kv_heads)
  Activation partial_;  // (n, 2, D) f32: gradients of both scales
};

}  // namespace trireme
