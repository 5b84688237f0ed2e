// SPDX-License-Identifier: Apache-2.0
// Sums of blocks that lie one after the other (partial products, micro-batches), in the order of
// the reproducible collectives.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

// y(...) = x(n, ...) summed over its leading axis as the tree of base/sum_tree.h, whose first
// `doubled` blocks, of n at most n - 1, stand for two leaves each. Compute dtypes, which
// may differ between x and y, are combined in f32 and rounded once; f64 goes with f64. y may be the
// first block of x where the dtypes agree.
void sum_blocks(Stream& stream, const Tensor& y, const Tensor& x, std::int64_t doubled = 0);

}  // namespace trireme::ops
