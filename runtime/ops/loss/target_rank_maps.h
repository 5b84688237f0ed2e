// SPDX-License-Identifier: Apache-2.0
// Private: written once for all back ends, see common/maps_cpu.h.
#pragma once

#include <algorithm>
#include <cmath>

#include "runtime/ops/loss/target_rank.h"

namespace trireme::ops::TRIREME_BACK_END {
namespace {

template <typename T>
struct RankBlock {
  const T* logits;
  const std::int32_t* targets;
  std::int64_t rows;
  std::int64_t width;
  std::int64_t filled;  // columns that are not padding
  std::int64_t first;

  RankBlock(const Tensor& tensor, const Tensor& labels, const ClassBlock& block)
      : logits(tensor.as<T>()),
        targets(labels.as<std::int32_t>()),
        rows(tensor.shape[0]),
        width(tensor.shape[1]),
        filled(std::clamp(block.classes - block.first, std::int64_t{0}, tensor.shape[1])),
        first(block.first) {}
};

template <typename T>
TRIREME_HOST_DEVICE void target_logit(std::int64_t row, float* values, const RankBlock<T>& block,
                                      bool accumulate) {
  const std::int64_t target = block.targets[row], local = target - block.first;
  const bool here = target >= 0 && local >= 0 && local < block.filled;
  const float value = here ? load(block.logits[row * block.width + local]) : -INFINITY;
  values[row] = accumulate ? (values[row] < value ? value : values[row]) : value;
}

}  // namespace

void target_logits(Stream& stream, const Tensor& values, const Tensor& logits,
                   const Tensor& targets, const ClassBlock& block, bool accumulate) {
  visit_compute_dtype(logits.dtype, [&]<typename T>(T) {
    each<target_logit<T>>(stream, logits.shape[0], values.as<float>(),
                          RankBlock<T>(logits, targets, block), accumulate);
  });
}

TRIREME_PROVIDES(target_logits);

}  // namespace trireme::ops::TRIREME_BACK_END
