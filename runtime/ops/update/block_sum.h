// SPDX-License-Identifier: Apache-2.0
// Sums contiguous blocks (partial products, micro-batches) in the order of the reproducible
// collectives.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

// y(...) = x(n, ...) summed over its leading axis as the tree of base/sum_tree.h, in which the
// first `doubled` (at most n - 1) blocks count as two leaves each. Compute dtypes, which may differ
// between x and y, are summed in f32 and rounded once; f64 only with f64. y may be the first block
// of x if the dtypes agree.
void sum_blocks(Stream& stream, const Tensor& y, const Tensor& x, std::int64_t doubled = 0);

}  // namespace trireme::ops
