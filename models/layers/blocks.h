// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/nn/layer.h"

namespace trireme {

// Block b, of this shape, of a tensor of concatenated blocks: this rank's blocks of a parameter,
// their outputs, or runs of rows.
[[nodiscard]] inline Tensor block_of(const Tensor& blocks, std::int64_t b, const Shape& shape) {
  return blocks.range(b * shape.count(), shape.count()).reshaped(shape);
}

// Block b's entry in a tensor with one value per block; empty if there are none.
[[nodiscard]] inline Tensor value_of(const Tensor& values, std::int64_t b) {
  return values.empty() ? values : values.range(b, 1);
}

// `count` concatenated blocks of this shape (B, T, width).
[[nodiscard]] inline Shape blocks_of(std::int64_t count, const Shape& block) {
  return {count, block[0], block[1], block[2]};
}

// The memory of an activation under another shape, which may be smaller.
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
