// SPDX-License-Identifier: Apache-2.0
// Which place a row's target has among its classes by their logits: 0 for the arg-max. The
// vocabulary may be split into blocks, as in cross_entropy_block.h; the caller joins the values
// (max) and the ranks (sum) of all of them. A class stands before another of the same logit whose
// number is higher.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

// The classes [first, first + W) of `classes`, of which those at or above `classes` are padding.
struct ClassBlock {
  std::int64_t classes = 0;
  std::int64_t first = 0;
};

// values(N) f32 = the logit of the row's target where it is in this block, else minus infinity;
// with `accumulate` = max(values, that). logits(N, W), a compute dtype; targets(N) i32, -1: none.
void target_logits(Stream& stream, const Tensor& values, const Tensor& logits,
                   const Tensor& targets, const ClassBlock& block, bool accumulate = false);

// ranks(N) f32 = how many classes of this block stand before the row's target, whose logits over
// all blocks are values(N); with `accumulate` ranks += that. Infinite for rows without a target.
void target_ranks(Stream& stream, const Tensor& ranks, const Tensor& values, const Tensor& logits,
                  const Tensor& targets, const ClassBlock& block, bool accumulate = false);

// total(1) f64 += how many of values, f32 of any shape, are below `limit`.
void count_below(Stream& stream, const Tensor& total, const Tensor& values, float limit);

}  // namespace trireme::ops
