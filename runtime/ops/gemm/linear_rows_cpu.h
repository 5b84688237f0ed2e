// SPDX-License-Identifier: Apache-2.0
// Private: row operations of a linear layer's matmul and its gradient, shared by the matmuls and
// those of elementwise.h: the same code, the same bits.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/ops/common/float_types.h"
#include "runtime/ops/common/scratch.h"

namespace trireme::ops::cpu {

// Rows per weight-gradient step: their padded copies fit the second-level cache.
inline constexpr std::int64_t chunk_reduction = 256;

// y = product + bias + residual; bias and residual may be null. y may alias either.
template <typename T, typename Sum>
void finish_rows(T* y, std::int64_t y_stride, const Sum* sums, std::int64_t sums_stride,
                 const float* bias, const T* residual, std::int64_t residual_stride,
                 std::int64_t rows, std::int64_t columns) {
  for (std::int64_t row = 0; row < rows; ++row) {
    T* const out = y + row * y_stride;
    const Sum* const in = sums + row * sums_stride;
    const T* const add = residual == nullptr ? nullptr : residual + row * residual_stride;
    if (bias != nullptr && add != nullptr) {
#pragma omp simd
      for (std::int64_t i = 0; i < columns; ++i)
        store(out[i], load(in[i]) + bias[i] + load(add[i]));
    } else if (bias != nullptr) {
#pragma omp simd
      for (std::int64_t i = 0; i < columns; ++i)
        store(out[i], load(in[i]) + bias[i]);
    } else if (add != nullptr) {
#pragma omp simd
      for (std::int64_t i = 0; i < columns; ++i)
        store(out[i], load(in[i]) + load(add[i]));
    } else {
#pragma omp simd
      for (std::int64_t i = 0; i < columns; ++i)
        store(out[i], load(in[i]));
    }
  }
}

// db += sum over rows, first within the chunk, which loses fewer bits in long columns.
template <typename T>
void add_chunk_sums(float* db, float* chunk_sum, const T* dy, std::int64_t stride,
                    std::int64_t rows, std::int64_t columns) {
  std::fill_n(chunk_sum, columns, 0.0F);
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* const in = dy + row * stride;
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i)
      chunk_sum[i] += load(in[i]);
  }
#pragma omp simd
  for (std::int64_t i = 0; i < columns; ++i)
    db[i] += chunk_sum[i];
}

// The same over all rows of a contiguous matrix.
template <typename T>
void add_column_sums(float* db, const T* dy, std::int64_t rows, std::int64_t columns) {
  static thread_local ScratchBlock block;
  float* const chunk_sum = block.floats(static_cast<std::size_t>(columns));
  for (std::int64_t first = 0; first < rows; first += chunk_reduction) {
    add_chunk_sums(db, chunk_sum, dy + first * columns, columns,
                   std::min(chunk_reduction, rows - first), columns);
  }
}

}  // namespace trireme::ops::cpu
