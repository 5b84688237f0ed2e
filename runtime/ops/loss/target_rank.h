// SPDX-License-Identifier: Apache-2.0
// The rank of a row's target among its classes by logit: 0 for the arg-max. The vocabulary may be
// split into blocks, as in cross_entropy_block.h; the caller combines the values (max) and ranks
// (sum) of all blocks. Of equal logits the lower class ranks first.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

// The classes [first, first + W) of `classes`; those at or above `classes` are padding.
struct ClassBlock {
  std::int64_t classes = 0;
  std::int64_t first = 0;
};

// values(N) f32 = the logit of the row's target if it is in this block, else minus infinity; with
// `accumulate` = max(values, that). logits(N, W), a compute dtype; targets(N) i32, -1: none.
void target_logits(Stream& stream, const Tensor& values, const Tensor& logits,
                   const Tensor& targets, const ClassBlock& block, bool accumulate = false);

// ranks(N) f32 = number of classes of this block that rank before the row's target, whose logit is
// values(N); with `accumulate` ranks += that. Infinite for rows without a target.
void target_ranks(Stream& stream, const Tensor& ranks, const Tensor& values, const Tensor& logits,
                  const Tensor& targets, const ClassBlock& block, bool accumulate = false);

// total(1) f64 += number of values (f32, any shape) below `limit`.
void count_below(Stream& stream, const Tensor& total, const Tensor& values, float limit);

}  // namespace trireme::ops
