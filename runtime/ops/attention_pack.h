// SPDX-License-Identifier: Apache-2.0
// Private: copies of one attention head's operands in the forms that tile products read, always
// f32, padded with zeros.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/ops/float_types.h"
#include "runtime/ops/tile_product.h"

namespace trireme::ops::cpu {

// Rows of one head inside a larger tensor.
template <typename T>
struct HeadRows {
  T* data;
  std::int64_t stride;  // elements from one position to the next

  [[nodiscard]] T* row(std::int64_t position) const { return data + position * stride; }
};

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

// Right operand: the common axis is the position, columns are the head's elements.
template <typename T>
void pack_panels(const Panels& to, const HeadRows<const T>& from, std::int64_t first,
                 std::int64_t rows, std::int64_t columns) {
  for (std::int64_t p = 0; p < to.columns; p += tile_columns) {
    const std::int64_t width = to.width(p);
    const std::int64_t filled = std::min(width, columns - p);
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* const in = from.row(first + r) + p;
      float* const out = to.at(r, p);
#pragma omp simd
      for (std::int64_t i = 0; i < filled; ++i)
        out[i] = load(in[i]);
      std::fill(out + filled, out + width, 0.0F);
    }
    std::fill(to.at(rows, p), to.at(to.rows, p), 0.0F);
  }
}

// Right operand: the common axis is the head's element, columns are positions.
template <typename T>
void pack_transposed(const Panels& to, const HeadRows<const T>& from, std::int64_t first,
                     std::int64_t rows) {
  for (std::int64_t p = 0; p < to.columns; p += tile_columns) {
    const std::int64_t width = to.width(p);
    const std::int64_t filled = std::clamp<std::int64_t>(rows - p, 0, width);
    float* const out = to.at(0, p);
    for (std::int64_t j = 0; j < filled; ++j) {
      const T* const in = from.row(first + p + j);
      for (std::int64_t k = 0; k < to.rows; ++k)
        out[k * width + j] = load(in[k]);
    }
    if (filled == width) continue;
    for (std::int64_t k = 0; k < to.rows; ++k) {
      std::fill(out + k * width + filled, out + (k + 1) * width, 0.0F);
    }
  }
}

}  // namespace trireme::ops::cpu
