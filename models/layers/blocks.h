// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/nn/layer.h"

namespace trireme {

// Block b, of this shape, of a tensor that holds blocks one after another: this rank's blocks of a
// parameter, what they compute, or runs of rows.
[[nodiscard]] inline Tensor block_of(const Tensor& blocks, std::int64_t b, const Shape& shape) {
  return blocks.range(b * shape.count(), shape.count()).reshaped(shape);
}

// That of block b of one value a block, where there are any.
[[nodiscard]] inline Tensor value_of(const Tensor& values, std::int64_t b) {
  return values.empty() ? values : values.range(b, 1);
}

// `count` blocks of this shape (B, T, width) one after another.
[[nodiscard]] inline Shape blocks_of(std::int64_t count, const Shape& block) {
  return {count, block[0], block[1], block[2]};
}

// The memory of one activation under another shape, which may be smaller.
[[nodiscard]] inline Activation reshaped(Activation activation, const Shape& shape) {
  activation.shape = shape;
  return activation;
}

// Activations that Recompute::selective does not keep.
[[nodiscard]] inline Activation keep_or_recompute(Blueprint& blueprint, const Shape& shape,
                                                  DType dtype) {
  return blueprint.options().recompute == Recompute::selective ? blueprint.scratch(shape, dtype)
                                                               : blueprint.keep(shape, dtype);
}

}  // namespace trireme
