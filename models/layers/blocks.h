// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/shape.h"

namespace trireme {

// Block b, of this shape, of a tensor that holds blocks one after another: this rank's blocks of a
// parameter, what they compute, or runs of rows.
[[nodiscard]] inline Tensor block_of(const Tensor& blocks, std::int64_t b, const Shape& shape) {
  return blocks.range(b * shape.count(), shape.count()).reshaped(shape);
}

}  // namespace trireme
