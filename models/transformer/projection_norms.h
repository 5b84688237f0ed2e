// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/transformer/query_key_norms.h"
#include "runtime/ops/norm/projection_norm.h"

namespace trireme {

// RMS normalisation of all queries of a row, and of all its keys. Scales (heads * D) and
// (kv_heads * D) are split over the tensor blocks; two sums per row and pass are added over them.
class ProjectionNorms final : public QueryKeyNorms {
 public:
  // `options` are for one tensor block; `packed`: the projection's shape.
  ProjectionNorms(Blueprint& blueprint, const ops::ProjectionNormOptions& options,
                  const Shape& packed);

  void forward(const Context& context, const Tensor& y, const Tensor& x) const override;
  void backward(const Context& context, const Tensor& dy, const Tensor& x) const override;
  void backward_weight(const Context& context) const override;

 private:
  [[nodiscard]] ops::ProjectionScales scales(const Context& context, std::int64_t b) const;
  // The queries' and the keys' part of local block b of both scales' gradients.
  [[nodiscard]] ops::ProjectionScales partials(const Context& context, std::int64_t b) const;
  // The sums of all tensor blocks, from those of the local ones.
  void add_blocks(const Context& context, const Tensor& total, const Tensor& sums) const;

  ops::ProjectionNormOptions options_;
  std::int64_t blocks_;
  Shape block_;     // (B, T, (heads + 2 kv_heads) * D)
  Shape sums_;      // (B * T, 2)
  Shape channels_;  // (heads * D, kv_heads * D) of a block
  bool split_backward_;
  ParamId query_, key_;
  Activation squares_;  // (B * T, 2), of all blocks
  Activation local_;    // (n, B * T, 2)
  Activation slopes_;   // (B * T, 2)
  Activation partial_;  // (n, (heads + kv_heads) * D) f32
};

}  // namespace trireme
