// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "models/spatial/box_exchange.h"

namespace trireme {

// The batch's inputs as the first layer of a model of fields computes with them: in the compute
// dtype, and as slabs with spatial parallelism; then the batch has what this rank's slabs cover.
class FieldInput {
 public:
  // `shape`: (N, [D,] H, W, C).
  FieldInput(Blueprint& blueprint, const Shape& shape);

  // `x`: Batch::inputs, f32. Where the rank has one slab, it is held as it was read.
  [[nodiscard]] Tensor forward(const Context& context, const Tensor& x) const;
  // What forward returned, in backward.
  [[nodiscard]] Tensor kept(const Context& context, const Tensor& x) const;

 private:
  std::optional<SlabCopy> own_{};
  Activation slabs_{};  // f32; rank 0: not cut
  Activation cast_{};   // rank 0: the compute dtype is f32
};

}  // namespace trireme
