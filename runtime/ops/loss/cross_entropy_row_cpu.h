// SPDX-License-Identifier: Apache-2.0
// Private: one row of softmax and cross-entropy, shared by the fused and the block-wise op.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "runtime/ops/common/float_types.h"
#include "runtime/ops/common/vector_math_cpu.h"
#include "runtime/ops/loss/cross_entropy_math.h"

namespace trireme::ops::cpu {

// Float sums of at most this many values are added in double, which keeps the last bits.
inline constexpr std::int64_t row_chunk = 2048;

template <typename T>
float largest_of(const T* row, std::int64_t count) {
  float result = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : result)
  for (std::int64_t i = 0; i < count; ++i)
    result = std::max(result, load(row[i]));
  return result;
}

// Writes e^(x - largest) to `exponentials`.
template <typename T>
RowSums exponentiate(float* exponentials, const T* row, float top, std::int64_t count) {
  RowSums sums;
  for (std::int64_t first = 0; first < count; first += row_chunk) {
    const std::int64_t end = std::min(first + row_chunk, count);
    float exponential_sum = 0.0F;
    float distance_sum = 0.0F;
#pragma omp simd reduction(+ : exponential_sum, distance_sum)
    for (std::int64_t i = first; i < end; ++i) {
      const float distance = load(row[i]) - top;
      const float e = fast_exp(distance);
      exponentials[i] = e;
      exponential_sum += e;
      distance_sum += distance;
    }
    sums.exponentials += static_cast<double>(exponential_sum);
    sums.distances += static_cast<double>(distance_sum);
  }
  return sums;
}

// Columns of a row's target and of the one mixed with it, -1 if they are outside, and the share of
// the first.
struct RowTargets {
  std::int64_t own = -1;
  std::int64_t other = -1;
  float share = 1.0F;
};

// row[0, count) = dlogits, row[count, stride) = 0. exponential_sum and largest are over the whole
// row.
template <typename T>
void write_row_gradient(T* row, const float* exponentials, std::int64_t count, std::int64_t stride,
                        const RowTargets& targets, double exponential_sum, float largest,
                        const CrossEntropyOptions& options) {
  const float scale = gradient_scale_of(options);
  const float factor = softmax_factor(exponential_sum, largest, scale, options);
  const float spread = scale * options.label_smoothing / static_cast<float>(options.classes);
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i)
    store(row[i], exponentials[i] * factor - spread);
  const auto take = [&](std::int64_t target, float share) {
    const float whole = scale * (1.0F - options.label_smoothing);
    store(row[target], exponentials[target] * factor - spread - whole * share);
  };
  if (targets.other >= 0) {
    take(targets.own, targets.share);
    take(targets.other, 1.0F - targets.share);
  } else if (targets.own >= 0) {
    const std::int64_t target = targets.own;
    store(row[target],
          exponentials[target] * factor - spread - scale * (1.0F - options.label_smoothing));
  }
  std::fill(row + count, row + stride, T{});
}

}  // namespace trireme::ops::cpu
