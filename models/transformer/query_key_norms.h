// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "models/layers/blocks.h"
#include "models/transformer/transformer.h"

namespace trireme {

// Norms of queries and keys, of the packed projection (n, B, T, (heads + 2 kv_heads) * D) of n
// tensor blocks. They declare "attention.query_norm.weight" and "attention.key_norm.weight", not
// decayed.
class QueryKeyNorms {
 public:
  virtual ~QueryKeyNorms() = default;
  virtual void forward(const Context& context, const Tensor& y, const Tensor& x) const = 0;
  // dx overwrites dy. Parameter gradients are accumulated and reported; with a split backward,
  // backward_weight does that.
  virtual void backward(const Context& context, const Tensor& dy, const Tensor& x) const = 0;
  virtual void backward_weight(const Context& context) const = 0;
};

// Those of a block's options; null: none. `packed`: the projection's shape.
[[nodiscard]] std::unique_ptr<QueryKeyNorms> make_query_key_norms(Blueprint& blueprint,
                                                                  const TransformerOptions& options,
                                                                  const Shape& packed);

}  // namespace trireme
