// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/ops/cross_entropy_block.h"

namespace trireme::ops::cpu {

void cross_entropy_block_max(Stream& stream, const Tensor& maxima, const Tensor& logits,
                             std::int64_t first_class, std::int64_t classes, bool accumulate);
void cross_entropy_block_sums(Stream& stream, const Tensor& sums, const Tensor& maxima,
                              const Tensor& logits, const Tensor& targets, std::int64_t first_class,
                              const CrossEntropyOptions& options);
void cross_entropy_block_finish(Stream& stream, const Tensor& losses, const Tensor& hits,
                                const Tensor& logits, const Tensor& maxima, const Tensor& sums,
                                const Tensor& targets, std::int64_t first_class,
                                const CrossEntropyOptions& options);

}  // namespace trireme::ops::cpu
