// SPDX-License-Identifier: Apache-2.0
// Private: tiles of attention heads in shared memory, f32, and their products. 256 threads as 16 x
// 16: thread (y, x) has rows y * R + i of the left operand, and of a product either columns x + 16
// j (scores) or columns 4 x + 64 c + e (head elements). `padded`: the head size, padded with zeros
// to a multiple of 64.
#pragma once

#include "runtime/ops/attention/attention_sizes.h"
#include "runtime/ops/common/reduce_cuda.h"
#include "runtime/ops/common/rows_cuda.h"

namespace trireme::ops::cuda {

inline constexpr int tile_side = 16;
inline constexpr int tile_threads = tile_side * tile_side;

// Distance between rows: a power of two plus four banks, so that 16 threads that read packs of four
// from adjacent rows have no bank conflicts.
template <int columns>
inline constexpr int tile_stride = columns + 4;

struct TileThread {
  int x = static_cast<int>(threadIdx.x) % tile_side;
  int y = static_cast<int>(threadIdx.x) / tile_side;
};

// tile(rows, padded) = positions [first, first + rows); zero beyond `length` and the head size.
template <int rows, int padded, typename T>
__device__ void load_tile(float* tile, const HeadRows<const T>& head, std::int64_t first,
                          std::int64_t length, int size) {
  for (int i = threadIdx.x; i < rows * padded; i += tile_threads) {
    const int row = i / padded, column = i % padded;
    const bool exists = first + row < length && column < size;
    tile[row * tile_stride<padded> + column] = exists ? load(head.row(first + row)[column]) : 0.0F;
  }
}

// s[i][j] = left row y * R + i times right row x + 16 j.
template <int R, int C, int padded>
__device__ void multiply_rows(float (&s)[R][C], const float* left, const float* right, int size) {
  const TileThread at;
#pragma unroll
  for (int i = 0; i < R; ++i) {
#pragma unroll
    for (int j = 0; j < C; ++j)
      s[i][j] = 0.0F;
  }
#pragma unroll 1
  for (int d = 0; d < size; d += 4) {
    Pack<float, 4> a[R], b[C];
#pragma unroll
    for (int i = 0; i < R; ++i)
      a[i] = load_pack<4>(left + (at.y * R + i) * tile_stride<padded> + d);
#pragma unroll
    for (int j = 0; j < C; ++j)
      b[j] = load_pack<4>(right + (at.x + tile_side * j) * tile_stride<padded> + d);
#pragma unroll
    for (int i = 0; i < R; ++i) {
#pragma unroll
      for (int j = 0; j < C; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e)
          s[i][j] += a[i][e] * b[j][e];
      }
    }
  }
}

// Sums for R rows of a head.
template <int R, int padded>
using HeadSums = float[R][padded / 64][4];

// sums += weights(rows, inner) * matrix(inner, padded).
template <int R, int inner, int padded>
__device__ void add_weighted_rows(HeadSums<R, padded>& sums, const float* weights,
                                  const float* matrix) {
  const TileThread at;
#pragma unroll 2
  for (int k = 0; k < inner; k += 4) {
    Pack<float, 4> w[R];
#pragma unroll
    for (int i = 0; i < R; ++i)
      w[i] = load_pack<4>(weights + (at.y * R + i) * tile_stride<inner> + k);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
#pragma unroll
      for (int c = 0; c < padded / 64; ++c) {
        const auto v = load_pack<4>(matrix + (k + e) * tile_stride<padded> + 4 * at.x + 64 * c);
#pragma unroll
        for (int i = 0; i < R; ++i) {
#pragma unroll
          for (int n = 0; n < 4; ++n)
            sums[i][c][n] += w[i][e] * v[n];
        }
      }
    }
  }
}

// Row y * R + i of the positions from `first` = sums[i] * factor[i], or has it added.
template <int R, int padded, bool adds = false, typename T>
__device__ void store_head_rows(const HeadRows<T>& head, std::int64_t first, std::int64_t length,
                                int size, const HeadSums<R, padded>& sums,
                                const float (&factor)[R]) {
  const TileThread at;
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const std::int64_t position = first + at.y * R + i;
    if (position >= length) continue;
#pragma unroll
    for (int c = 0; c < padded / 64; ++c) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const int column = 4 * at.x + 64 * c + n;
        if (column >= size) continue;
        T& to = head.row(position)[column];
        store(to, adds ? load(to) + sums[i][c][n] * factor[i] : sums[i][c][n] * factor[i]);
      }
    }
  }
}

// Reduces over the 16 threads that share rows.
template <typename Op>
__device__ float row_threads_reduce(float value, Op op) {
  for (int lanes = tile_side / 2; lanes > 0; lanes /= 2)
    value = op(value, __shfl_xor_sync(whole_warp, value, lanes));
  return value;
}

// The product of a query and a key, scaled if a soft cap limits it.
__device__ inline float capped(float product, const AttentionSizes& sizes) {
  if (sizes.soft_cap == 0.0F) return product;
  return sizes.soft_cap * tanhf(product * sizes.scale / sizes.soft_cap);
}
// Derivative of the softmax's input by the product.
__device__ inline float score_slope(float score, const AttentionSizes& sizes) {
  if (sizes.soft_cap == 0.0F) return sizes.scale;
  const float share = score / sizes.soft_cap;
  return sizes.scale * (1.0F - share * share);
}

// Calls action(padded head size).
template <typename Action>
void with_padded_size(std::int64_t size, Action&& action) {
  TRIREME_EXPECTS(size <= 256,
                  "attention: a head size of {}, but the GPU kernels support at most 256", size);
  if (size <= 64) {
    action(std::integral_constant<int, 64>{});
  } else if (size <= 128) {
    action(std::integral_constant<int, 128>{});
  } else {
    action(std::integral_constant<int, 256>{});
  }
}

}  // namespace trireme::ops::cuda
