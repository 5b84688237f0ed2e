// SPDX-License-Identifier: Apache-2.0
// Private to the CUDA kernels: products of groups of rows with their matrices, by SIMT in f32
// (gemm/matmul_tile_cuda.h). Where groups begin is known on the device alone, so a launch has
// blocks for the most tiles that there can be. A result is one sum in a fixed order.
#pragma once

#include "runtime/ops/common/float_types.h"
#include "runtime/ops/gemm/matmul_tile_cuda.h"

namespace trireme::ops::cuda {

// Groups of `rows` rows; without offsets they are one.
struct RowGroups {
  const std::int32_t* offsets;
  std::int64_t count, rows, matrices;

  // The last group g in [0, count) with offsets[g] / divisor + g * step <= place.
  [[nodiscard]] __device__ std::int64_t find(std::int64_t place, int divisor, int step) const {
    std::int64_t low = 0, high = count;
    while (high - low > 1) {
      const std::int64_t middle = (low + high) / 2;
      if (offsets[middle] / divisor + middle * step <= place) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return low;
  }
  // Group g has its tiles from offsets[g] / tile + g on: more than enough places for each.
  [[nodiscard]] std::int64_t most_tiles() const {
    return ceil_div(rows, tile) + (offsets == nullptr ? 0 : count);
  }
};

// At most `tile` rows of one group.
struct RowTile {
  std::int64_t first, rows, matrix;  // rows <= 0: none

  __device__ RowTile(const RowGroups& groups, std::int64_t place) {
    std::int64_t end = groups.rows;
    first = place * tile;
    matrix = 0;
    if (groups.offsets != nullptr) {
      const std::int64_t g = groups.find(place, tile, 1);
      const std::int64_t begin = groups.offsets[g];
      first = begin + (place - begin / tile - g) * tile;
      end = groups.offsets[g + 1];
      matrix = g % groups.matrices;
    }
    rows = end - first < tile ? end - first : tile;
  }
};

// to(rows, columns) = from(rows, terms) times each row's matrix, (terms, columns) if `plain`, else
// (columns, terms), + bias + what was there if `adds`.
template <bool plain, typename To, typename From, typename W>
__global__ void __launch_bounds__(threads)
    multiply_rows_kernel(To* to, const From* from, const W* w, const float* bias, bool adds,
                         RowGroups groups, std::int64_t columns, std::int64_t terms) {
  __shared__ Panel left, right;
  const std::int64_t tiles = (columns + tile - 1) / tile;
  const RowTile run(groups, blockIdx.x / tiles);
  if (run.rows <= 0) return;
  const std::int64_t column = blockIdx.x % tiles * tile;
  from += run.first * terms;
  w += run.matrix * columns * terms;
  Sums sums;
  for (std::int64_t k = 0; k < terms; k += depth) {
    fill_along_terms(left, [&](int place, int term) {
      return place < run.rows && k + term < terms ? load(from[place * terms + k + term]) : 0.0F;
    });
    const auto weight = [&](int place, int term) {
      const std::int64_t c = column + place, t = k + term;
      if (c >= columns || t >= terms) return 0.0F;
      return load(plain ? w[t * columns + c] : w[c * terms + t]);
    };
    if constexpr (plain) {
      fill_along_places(right, weight);
    } else {
      fill_along_terms(right, weight);
    }
    __syncthreads();
    sums.add(left, right);
    __syncthreads();
  }
  sums.give([&](int r, int c, float sum) {
    if (r >= run.rows || column + c >= columns) return;
    To& result = to[(run.first + r) * columns + column + c];
    if (bias != nullptr) sum += bias[run.matrix * columns + column + c];
    store(result, adds ? load(result) + sum : sum);
  });
}

// dw(X, outputs, inputs) += dy^T x and db(X, outputs), which may be null, += column sums of dy,
// over groups [first, end). A block has a tile of one matrix and goes through its rows in their
// order.
template <typename DY, typename X>
__global__ void __launch_bounds__(threads, 2)
    multiply_columns_kernel(float* dw, float* db, const DY* dy, const X* x, RowGroups groups,
                            std::int64_t first, std::int64_t end, std::int64_t outputs,
                            std::int64_t inputs) {
  __shared__ Panel left, right;
  const std::int64_t across = (inputs + tile - 1) / tile, down = (outputs + tile - 1) / tile;
  const std::int64_t input = blockIdx.x % across * tile;
  const std::int64_t output = blockIdx.x / across % down * tile;
  const std::int64_t matrix = blockIdx.x / (across * down);
  dw += (matrix * outputs + output) * inputs + input;
  const int tall = static_cast<int>(outputs - output < tile ? outputs - output : tile);
  const int wide = static_cast<int>(inputs - input < tile ? inputs - input : tile);
  const bool of_bias = db != nullptr && input == 0 && static_cast<int>(threadIdx.x) < tall;
  float bias = of_bias ? db[matrix * outputs + output + threadIdx.x] : 0.0F;
  Sums sums;
  sums.start([&](int r, int c) { return r < tall && c < wide ? dw[r * inputs + c] : 0.0F; });
  for (std::int64_t g = first + matrix; g < end; g += groups.matrices) {
    const std::int64_t begin = groups.offsets == nullptr ? 0 : groups.offsets[g];
    const std::int64_t behind = groups.offsets == nullptr ? groups.rows : groups.offsets[g + 1];
    for (std::int64_t row = begin; row < behind; row += depth) {
      const int terms = static_cast<int>(behind - row < depth ? behind - row : depth);
      fill_along_places(left, [&](int place, int term) {
        return place < tall && term < terms ? load(dy[(row + term) * outputs + output + place])
                                            : 0.0F;
      });
      fill_along_places(right, [&](int place, int term) {
        return place < wide && term < terms ? load(x[(row + term) * inputs + input + place]) : 0.0F;
      });
      __syncthreads();
      sums.add(left, right, terms);
      for (int term = 0; of_bias && term < terms; ++term)
        bias += left[term][threadIdx.x];
      __syncthreads();
    }
  }
  sums.give([&](int r, int c, float sum) {
    if (r < tall && c < wide) dw[r * inputs + c] = sum;
  });
  if (of_bias) db[matrix * outputs + output + threadIdx.x] = bias;
}

}  // namespace trireme::ops::cuda
