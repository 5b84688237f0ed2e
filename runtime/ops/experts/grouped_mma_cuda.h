// SPDX-License-Identifier: Apache-2.0
// Private to the CUDA kernels: those of grouped_matmul_cuda.h for 16-bit operands, on tensor cores
// with f32 sums. A tensor core rounds once per 8 or 16 terms, so weight gradients see the groups of
// a matrix as one list of rows, cut every `depth` rows wherever a group ends.
#pragma once

#include <mma.h>

#include "runtime/ops/common/pack_cuda.h"
#include "runtime/ops/experts/grouped_matmul_cuda.h"

namespace trireme::ops::cuda {

template <typename T>
using MmaType = std::conditional_t<std::is_same_v<T, bf16>, __nv_bfloat16, __half>;

// A block of 8 warps computes `tile` x mma_columns results; each warp 2 x 2 fragments.
constexpr int fragment = 16;
constexpr int mma_columns = 128;
constexpr int mma_pad = 8;  // elements behind a row, against bank conflicts

// A (rows, columns) part of a matrix that the block copies to shared memory, first to registers.
template <typename T, int rows, int columns>
struct MmaPart {
  static constexpr int width = pack_width<T>, across = columns / width;
  static constexpr int packs = rows * across / threads, stride = columns + mma_pad;
  Pack<T, width> held[packs];

  // Row r begins at row_at(r), null if there is none, and has `wide` elements. A thread asks for
  // its rows in ascending order.
  template <typename RowAt>
  __device__ void fetch(RowAt&& row_at, std::int64_t wide, bool aligned) {
#pragma unroll
    for (int p = 0; p < packs; ++p) {
      const int at = static_cast<int>(threadIdx.x) + p * threads;
      const int c = at % across * width;
      const T* const row = row_at(at / across);
      if (aligned && row != nullptr && c + width <= wide) {
        held[p] = load_pack<width>(row + c);
      } else {
#pragma unroll
        for (int j = 0; j < width; ++j)
          held[p][j] = row != nullptr && c + j < wide ? row[c + j] : T{};
      }
    }
  }
  // Rows that are `stride` elements apart, of which `tall` exist.
  __device__ void fetch(const T* from, std::int64_t stride, std::int64_t tall, std::int64_t wide,
                        bool aligned) {
    fetch([&](int r) { return r < tall ? from + r * stride : nullptr; }, wide, aligned);
  }
  __device__ void put(T* shared) const {
#pragma unroll
    for (int p = 0; p < packs; ++p) {
      const int at = static_cast<int>(threadIdx.x) + p * threads;
      store_pack(shared + at / across * stride + at % across * width, held[p]);
    }
  }
};

// The warp's share of the block's results. A row of a factor in shared memory has one term of all
// results if `left_terms` or `right_terms`, else all terms of one.
template <bool left_terms, bool right_terms, typename T>
struct MmaSums {
  using Type = MmaType<T>;
  using Left = std::conditional_t<left_terms, nvcuda::wmma::col_major, nvcuda::wmma::row_major>;
  using Right = std::conditional_t<right_terms, nvcuda::wmma::row_major, nvcuda::wmma::col_major>;
  using Sum =
      nvcuda::wmma::fragment<nvcuda::wmma::accumulator, fragment, fragment, fragment, float>;
  Sum sums[2][2];
  int row = static_cast<int>(threadIdx.x) / 128 * 32;
  int column = static_cast<int>(threadIdx.x) / 32 % 4 * 32;

  __device__ MmaSums() {
    for (auto& line : sums) {
      for (Sum& sum : line)
        nvcuda::wmma::fill_fragment(sum, 0.0F);
    }
  }
  __device__ void add(const T* left, int left_stride, const T* right, int right_stride) {
    namespace wmma = nvcuda::wmma;
#pragma unroll
    for (int k = 0; k < depth; k += fragment) {
      wmma::fragment<wmma::matrix_a, fragment, fragment, fragment, Type, Left> a[2];
      wmma::fragment<wmma::matrix_b, fragment, fragment, fragment, Type, Right> b[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int r = row + i * fragment, c = column + i * fragment;
        const T* const rows = left + (left_terms ? k * left_stride + r : r * left_stride + k);
        const T* const columns =
            right + (right_terms ? k * right_stride + c : c * right_stride + k);
        wmma::load_matrix_sync(a[i], reinterpret_cast<const Type*>(rows), left_stride);
        wmma::load_matrix_sync(b[i], reinterpret_cast<const Type*>(columns), right_stride);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 2; ++j)
          wmma::mma_sync(sums[i][j], a[i], b[j], sums[i][j]);
      }
    }
  }
  __device__ void put(float* shared, int stride) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int j = 0; j < 2; ++j)
        nvcuda::wmma::store_matrix_sync(
            shared + (row + i * fragment) * stride + column + j * fragment, sums[i][j], stride,
            nvcuda::wmma::mem_row_major);
    }
  }
};

// First the factors, then the sums; fragments begin at multiples of 32 bytes.
struct alignas(128) MmaShared {
  static constexpr int stride = mma_columns + mma_pad;
  float sums[tile * stride];
};

// `aligned`: all rows of from and w are whole packs.
template <bool plain, typename T>
__global__ void __launch_bounds__(threads)
    multiply_rows_mma_kernel(T* to, const T* from, const T* w, const float* bias, bool aligned,
                             RowGroups groups, std::int64_t columns, std::int64_t terms) {
  using Left = MmaPart<T, tile, depth>;
  using Right = MmaPart<T, plain ? depth : mma_columns, plain ? mma_columns : depth>;
  constexpr int left_size = tile * Left::stride;
  __shared__ MmaShared shared;
  T* const left_shared = reinterpret_cast<T*>(shared.sums);
  T* const right_shared = left_shared + left_size;
  static_assert((left_size + (plain ? depth : mma_columns) * Right::stride) * sizeof(T) <=
                sizeof(shared));
  const std::int64_t tiles = (columns + mma_columns - 1) / mma_columns;
  const RowTile run(groups, blockIdx.x / tiles);
  if (run.rows <= 0) return;
  const std::int64_t column = blockIdx.x % tiles * mma_columns, wide = columns - column;
  from += run.first * terms;
  w += run.matrix * columns * terms + (plain ? column : column * terms);
  Left left;
  Right right;
  const auto fetch = [&](std::int64_t k) {
    left.fetch(from + k, terms, run.rows, terms - k, aligned);
    if constexpr (plain) {
      right.fetch(w + k * columns, columns, terms - k, wide, aligned);
    } else {
      right.fetch(w + k, terms, wide, terms - k, aligned);
    }
  };
  MmaSums<false, plain, T> sums;
  fetch(0);
  for (std::int64_t k = 0; k < terms; k += depth) {
    left.put(left_shared);
    right.put(right_shared);
    __syncthreads();
    if (k + depth < terms) fetch(k + depth);
    sums.add(left_shared, Left::stride, right_shared, Right::stride);
    __syncthreads();
  }
  sums.put(shared.sums, MmaShared::stride);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < tile * mma_columns; i += threads) {
    const int r = i / mma_columns, c = i % mma_columns;
    if (r >= run.rows || c >= wide) continue;
    const float add = bias == nullptr ? 0.0F : bias[run.matrix * columns + column + c];
    store(to[(run.first + r) * columns + column + c], shared.sums[r * MmaShared::stride + c] + add);
  }
}

// The rows of one matrix in its groups [group, end), one after the other.
class MatrixRows {
 public:
  __device__ MatrixRows(const RowGroups& groups, std::int64_t group, std::int64_t end)
      : groups_(groups), group_(group), end_(end) {
    enter();
  }
  [[nodiscard]] __device__ std::int64_t count() const {
    std::int64_t sum = 0;
    for (std::int64_t g = group_; g < end_; g += groups_.matrices)
      sum += groups_.offsets[g + 1] - groups_.offsets[g];
    return sum;
  }
  // Where row `place` of the list is, below 0 behind its end. Places must ascend.
  [[nodiscard]] __device__ std::int64_t at(std::int64_t place) {
    while (group_ < end_ && place >= behind_) {
      group_ += groups_.matrices;
      enter();
    }
    return group_ < end_ ? place + shift_ : -1;
  }

 private:
  __device__ void enter() {
    if (group_ >= end_) return;
    shift_ = groups_.offsets[group_] - behind_;
    behind_ += groups_.offsets[group_ + 1] - groups_.offsets[group_];
  }
  const RowGroups& groups_;
  std::int64_t group_, end_;
  std::int64_t behind_ = 0, shift_ = 0;  // end of the group in the list; from there to the tensors
};

// multiply_columns_kernel; the sums over the rows of a call begin at zero and are added to dw once.
// `aligned`: all rows of dy and x are whole packs.
template <typename T>
__global__ void __launch_bounds__(threads)
    multiply_columns_mma_kernel(float* dw, float* db, const T* dy, const T* x, bool aligned,
                                RowGroups groups, std::int64_t first, std::int64_t end,
                                std::int64_t outputs, std::int64_t inputs) {
  using Left = MmaPart<T, depth, tile>;
  using Right = MmaPart<T, depth, mma_columns>;
  __shared__ MmaShared shared;
  T* const left_shared = reinterpret_cast<T*>(shared.sums);
  T* const right_shared = left_shared + depth * Left::stride;
  static_assert(depth * (Left::stride + Right::stride) * sizeof(T) <= sizeof(shared));
  const std::int64_t across = (inputs + mma_columns - 1) / mma_columns;
  const std::int64_t down = (outputs + tile - 1) / tile;
  const std::int64_t input = blockIdx.x % across * mma_columns, wide = inputs - input;
  const std::int64_t output = blockIdx.x / across % down * tile, tall = outputs - output;
  const std::int64_t matrix = blockIdx.x / (across * down);
  MatrixRows left_rows(groups, first + matrix, end), right_rows = left_rows;
  const std::int64_t count = left_rows.count();
  if (count == 0) return;
  Left left;
  Right right;
  const auto fetch = [&](std::int64_t k) {
    const auto row = [k](MatrixRows& rows, const T* from, std::int64_t width) {
      return [k, &rows, from, width](int r) {
        const std::int64_t place = rows.at(k + r);
        return place < 0 ? nullptr : from + place * width;
      };
    };
    left.fetch(row(left_rows, dy + output, outputs), tall, aligned);
    right.fetch(row(right_rows, x + input, inputs), wide, aligned);
  };
  const int o = static_cast<int>(threadIdx.x);
  const bool of_bias = db != nullptr && input == 0 && o < tile && o < tall;
  float bias = of_bias ? db[matrix * outputs + output + o] : 0.0F;
  MmaSums<true, true, T> sums;
  fetch(0);
  for (std::int64_t k = 0; k < count; k += depth) {
    left.put(left_shared);
    right.put(right_shared);
    __syncthreads();
    if (k + depth < count) fetch(k + depth);
    sums.add(left_shared, Left::stride, right_shared, Right::stride);
    if (of_bias) {
#pragma unroll
      for (int term = 0; term < depth; ++term)
        bias += load(left_shared[term * Left::stride + o]);
    }
    __syncthreads();
  }
  if (of_bias) db[matrix * outputs + output + o] = bias;
  sums.put(shared.sums, MmaShared::stride);
  __syncthreads();
  dw += (matrix * outputs + output) * inputs + input;
  for (int i = o; i < tile * mma_columns; i += threads) {
    const int r = i / mma_columns, c = i % mma_columns;
    if (r < tall && c < wide) dw[r * inputs + c] += shared.sums[r * MmaShared::stride + c];
  }
}

}  // namespace trireme::ops::cuda
