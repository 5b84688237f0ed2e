// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "models/layers/blocks.h"
#include "models/transformer/transformer.h"
#include "runtime/ops/norm/packed_norm.h"

namespace trireme {

// RMS normalisation of queries and keys, of the packed projection (n, B, T, (heads + 2 kv_heads) *
// D) of n tensor blocks. Of each head: all share a scale (D), so its gradient is summed over the
// tensor blocks, then over the tensor ranks. Or of all queries of a row, and of all its keys:
// scales (heads * D) and (kv_heads * D) are split over the tensor blocks, and two sums per row and
// pass are added over them. Declares "attention.query_norm.weight" and "attention.key_norm.weight",
// not decayed.
class QueryKeyNorms {
 public:
  // `options` are for one tensor block; `packed`: the projection's shape.
  QueryKeyNorms(Blueprint& blueprint, const ops::PackedNormOptions& options, const Shape& packed);

  void forward(const Context& context, const Tensor& y, const Tensor& x) const;
  // dx overwrites dy. Parameter gradients are accumulated and reported; with a split backward,
  // backward_weight does that.
  void backward(const Context& context, const Tensor& dy, const Tensor& x) const;
  void backward_weight(const Context& context) const;

 private:
  [[nodiscard]] ops::PackedScales scales(const Context& context, std::int64_t b) const;
  // The part of local block b of both scales' gradients.
  [[nodiscard]] ops::PackedScales partials(const Context& context, std::int64_t b) const;
  [[nodiscard]] Tensor rstd(const Context& context, std::int64_t b) const;
  // The sums of all tensor blocks, which `of_block(b, to)` makes of the local ones; of heads none.
  template <typename OfBlock>
  [[nodiscard]] Tensor sums(const Context& context, const OfBlock& of_block) const;

  ops::PackedNormOptions options_;
  std::int64_t blocks_;
  Shape block_;    // (B, T, (heads + 2 kv_heads) * D)
  Shape sums_;     // (B * T, runs)
  Shape lengths_;  // of the scales of a block: queries, keys
  bool split_backward_;
  ParamId query_, key_;
  Activation rstd_;  // (n, B * T, heads + kv_heads), or whole: (B * T, 2) of all blocks
  Activation local_{}, total_{};  // whole: (n, B * T, 2), (B * T, 2)
  Activation partial_;            // (n, queries + keys) f32: gradients of both scales
};

// Those of a block's options; null: none. `packed`: the projection's shape.
[[nodiscard]] std::unique_ptr<QueryKeyNorms> make_query_key_norms(Blueprint& blueprint,
                                                                  const TransformerOptions& options,
                                                                  const Shape& packed);

}  // namespace trireme
