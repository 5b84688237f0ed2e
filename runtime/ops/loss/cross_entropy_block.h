// SPDX-License-Identifier: Apache-2.0
// Softmax and cross-entropy over a vocabulary split into blocks of W classes, in phases: in between
// the caller combines row maxima (max) and row sums (a fixed tree, see sum_blocks) of all blocks,
// local or remote. A block holds the classes [first_class, first_class + W); those at or above the
// class count are padding.
#pragma once

#include "runtime/ops/loss/cross_entropy.h"

namespace trireme::ops {

// A block's contribution to a row; columns of the f64 `sums` tensor.
struct CrossEntropySums {
  enum Index : int {
    exponentials,     // sum of e^(x - max)
    distances,        // sum of x - max, for the smoothed part of the target
    target_distance,  // x[target] - max if the target is in this block, else 0
    // Number of values equal to max before the target, plus 1 if the target's value is below max: a
    // total of 0 over all blocks means that the target is the first maximum.
    rivals,
    count
  };
};

// maxima(N) f32 = largest logit of the row's classes in this block, minus infinity if all are
// padding; with `accumulate` = max(maxima, that). A maximum of zero is +0. logits(N, W) are f32,
// bf16 or f16.
void cross_entropy_block_max(Stream& stream, const Tensor& maxima, const Tensor& logits,
                             std::int64_t first_class, std::int64_t classes,
                             bool accumulate = false);

// sums(N, CrossEntropySums::count) f64 = this block's; maxima(N) are over all blocks. targets(N)
// i32 are classes of the whole vocabulary; rows with -1 have zero sums.
void cross_entropy_block_sums(Stream& stream, const Tensor& sums, const Tensor& maxima,
                              const Tensor& logits, const Tensor& targets, std::int64_t first_class,
                              const CrossEntropyOptions& options);

// With maxima and sums over all blocks: losses(N) and correct(N) as in cross_entropy, equal from
// every block, either may be absent; logits(N, W) become dlogits unless options.write_gradient is
// false.
void cross_entropy_block_finish(Stream& stream, const Tensor& losses, const Tensor& correct,
                                const Tensor& logits, const Tensor& maxima, const Tensor& sums,
                                const Tensor& targets, std::int64_t first_class,
                                const CrossEntropyOptions& options);

}  // namespace trireme::ops
