// SPDX-License-Identifier: Apache-2.0
// Private: packs an attention head's operands for tile products, always in f32, padded with zeros.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/ops/attention/attention_sizes.h"
#include "runtime/ops/common/float_types.h"
#include "runtime/ops/gemm/matmul_tile_cpu.h"

namespace trireme::ops::cpu {

// Left operand: `rows` rows of `columns`, then zero rows up to `padded_rows`.
template <typename T>
void pack_left(float* to, const HeadRows<const T>& from, std::int64_t first, std::int64_t rows,
               std::int64_t padded_rows, std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* const in = from.row(first + r);
    float* const out = to + r * columns;
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i)
      out[i] = load(in[i]);
  }
  std::fill(to + rows * columns, to + padded_rows * columns, 0.0F);
}

// Right operand: the common axis is the position, columns are the head's elements. Does not write
// positions before `begin`.
template <typename T>
void pack_panels(const Panels& to, const HeadRows<const T>& from, std::int64_t rows,
                 std::int64_t columns, std::int64_t begin = 0) {
  for (std::int64_t p = 0; p < to.columns; p += tile_columns) {
    const std::int64_t width = to.width(p);
    const std::int64_t filled = std::min(width, columns - p);
    for (std::int64_t r = begin; r < rows; ++r) {
      const T* const in = from.row(r) + p;
      float* const out = to.at(r, p);
#pragma omp simd
      for (std::int64_t i = 0; i < filled; ++i)
        out[i] = load(in[i]);
      std::fill(out + filled, out + width, 0.0F);
    }
    std::fill(to.at(rows, p), to.at(to.rows, p), 0.0F);
  }
}

// to[k * to_stride + j] = row j's element k, for `lanes` rows j and all k < count.
template <typename T>
void transpose_rows(float* to, std::int64_t to_stride, const HeadRows<const T>& from,
                    std::int64_t first, std::int64_t count) {
  std::int64_t k = 0;
  for (; k + lanes <= count; k += lanes) {
    Vector square[lanes];
#pragma GCC unroll 16
    for (int j = 0; j < lanes; ++j)
      square[j] = load_vector(from.row(first + j) + k);
    transpose(square);
#pragma GCC unroll 16
    for (int j = 0; j < lanes; ++j)
      store_vector(to + (k + j) * to_stride, square[j]);
  }
  for (; k < count; ++k) {
    for (int j = 0; j < lanes; ++j)
      to[k * to_stride + j] = load(from.row(first + j)[k]);
  }
}

// Right operand: the common axis is the head's element, columns are positions from `begin` on, a
// multiple of tile_columns.
template <typename T>
void pack_transposed(const Panels& to, const HeadRows<const T>& from, std::int64_t rows,
                     std::int64_t begin = 0) {
  for (std::int64_t column = begin; column < to.columns; column += lanes) {
    const std::int64_t panel = column / tile_columns * tile_columns;
    const std::int64_t width = to.width(panel);
    float* const out = to.at(0, panel) + (column - panel);
    if (column + lanes <= rows) {
      transpose_rows(out, width, from, column, to.rows);
      continue;
    }
    for (std::int64_t k = 0; k < to.rows; ++k) {
      for (std::int64_t j = 0; j < lanes; ++j) {
        const bool exists = column + j < rows;
        out[k * width + j] = exists ? load(from.row(column + j)[k]) : 0.0F;
      }
    }
  }
}

}  // namespace trireme::ops::cpu
