// SPDX-License-Identifier: Apache-2.0
// Private: one row of softmax and cross-entropy by a block of threads, shared by the fused and the
// block-wise op.
#pragma once

#include <cfloat>

#include "runtime/ops/common/reduce_cuda.h"
#include "runtime/ops/common/rows_cuda.h"
#include "runtime/ops/loss/cross_entropy_math.h"

namespace trireme::ops::cuda {

// Long rows get the maximum number of threads per block: then few rows are in flight, and the
// second pass over each hits the second-level cache.
inline constexpr int long_row_threads = 1024;
inline constexpr int short_row_threads = 128;
inline constexpr std::int64_t short_row = 4096;

// e^x with T's precision: 16-bit values need no correction of x log2(e).
template <typename T>
__device__ float row_exp(float x) {
  if constexpr (sizeof(T) == 2) {
    return exp2f(x * 1.4426950409F);
  } else {
    return expf(x);
  }
}

struct Largest {  // ignores NaN, which shows in the sums
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// Calls f(column, pack) for this thread's packs of [0, columns).
template <int threads, bool aligned, typename T, typename F>
__device__ void each_row_pack(const T* row, std::int64_t columns, F f) {
  constexpr int width = pack_width<T>;
#pragma unroll(aligned ? 4 : 1)
  for (std::int64_t column = threadIdx.x * width; column < columns; column += threads * width) {
    f(column, row_pack<aligned>(row, column, columns));
  }
}

// dlogits of one element.
struct RowGradient {
  float top;
  float factor;
  float spread;  // the smoothed part of the target
  float own;     // of the target's one-hot part

  __device__ RowGradient(float largest, double exponentials, const CrossEntropyOptions& options) {
    const float scale = gradient_scale_of(options);
    top = largest;
    factor = softmax_factor(exponentials, largest, scale, options);
    spread = scale * options.label_smoothing / static_cast<float>(options.classes);
    own = scale * (1.0F - options.label_smoothing);
  }

  // Column i's share of the row's target, and of the one mixed with it.
  __device__ float taken(std::int64_t i, const TargetMix& mix) const {
    if (mix.other >= 0 && i == mix.other) return own * (1.0F - mix.share);
    return mix.other >= 0 ? own * mix.share : own;
  }
  template <typename T>
  __device__ float operator()(T x, std::int64_t i, std::int64_t target,
                              const TargetMix& mix) const {
    const float value = row_exp<T>(load(x) - top) * factor - spread;
    return i == target || (mix.other >= 0 && i == mix.other) ? value - taken(i, mix) : value;
  }
};

// row[0, filled) = dlogits, row[filled, stride) = 0. target: its column, or -1. Rows without any
// target are all zero: filled = 0.
template <int threads, bool aligned, typename T>
__device__ void write_row_gradient(T* row, std::int64_t filled, std::int64_t stride,
                                   std::int64_t target, const RowGradient& gradient,
                                   const TargetMix& mix = {}) {
  each_row_pack<threads, aligned>(row, stride, [&](std::int64_t column, auto pack) {
#pragma unroll
    for (int j = 0; j < pack_width<T>; ++j) {
      const std::int64_t i = column + j;
      store(pack[j], i < filled ? gradient(pack[j], i, target, mix) : 0.0F);
    }
    store_row_pack<aligned>(row, column, stride, pack);
  });
}

// Calls action(threads, aligned) for rows of `stride` elements.
template <typename T, typename Action>
void with_row_kernel(const T* logits, std::int64_t stride, Action&& action) {
  with_flag(rows_align<T>(logits, stride), [&](auto aligned) {
    if (stride <= short_row) {
      action(std::integral_constant<int, short_row_threads>{}, aligned);
    } else {
      action(std::integral_constant<int, long_row_threads>{}, aligned);
    }
  });
}

}  // namespace trireme::ops::cuda
