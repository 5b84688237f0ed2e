// SPDX-License-Identifier: Apache-2.0
// Private: small matmuls on packed operands in the first-level cache, the inner loop of attention.
// A tile of `tile_rows` x `tile_columns` of the result stays in registers along the common axis
// (Goto & van de Geijn, "Anatomy of high-performance matrix multiplication", 2008).
//
// Right operands (K, N) are packed in panels: columns [p * tile_columns, ...) of all K rows are
// contiguous, row after row; the last panel is as narrow as whole vectors allow. Left operands are
// read element by element at any stride. Everything is zero-padded to whole strips and vectors, so
// there are no edge cases.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/ops/common/simd_cpu.h"

namespace trireme::ops::cpu {

// 12 (of 16) or 24 (of 32) registers hold the result.
inline constexpr int tile_rows = lanes == 16 ? 12 : 6;
inline constexpr int tile_vectors = 2;
inline constexpr std::int64_t tile_columns = tile_vectors * lanes;

[[nodiscard]] constexpr std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Element (i, k) of a left operand is data[i * row + k * step].
struct LeftOperand {
  const float* data;
  std::int64_t row;
  std::int64_t step;
};

// One tile: c (+)= a * b over `count` values of k. b advances by `b_row` for each k.
template <int vectors, bool accumulate, bool unit_step>
[[gnu::always_inline]] inline void tile_matmul(std::int64_t count, const LeftOperand& left,
                                               const float* b, std::int64_t b_row, float* c,
                                               std::int64_t c_row) {
  Vector sum[tile_rows][vectors];
#pragma GCC unroll 16
  for (int i = 0; i < tile_rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) {
      sum[i][j] = accumulate ? load_vector(c + i * c_row + j * lanes) : Vector{};
    }
  }
  const float* a = left.data;
  const std::int64_t row = unit_step ? left.row : 1;
  const std::int64_t step = unit_step ? 1 : left.step;
  for (std::int64_t k = 0; k < count; ++k) {
    Vector right[vectors];
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j)
      right[j] = load_vector(b + j * lanes);
#pragma GCC unroll 16
    for (int i = 0; i < tile_rows; ++i) {
      const float value = a[i * row];
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j)
        sum[i][j] += value * right[j];
    }
    a += step;
    b += b_row;
  }
#pragma GCC unroll 16
  for (int i = 0; i < tile_rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j)
      store_vector(c + i * c_row + j * lanes, sum[i][j]);
  }
}

// A packed right operand: rows of K, columns rounded up to whole vectors.
struct Panels {
  float* data;
  std::int64_t rows;     // K as packed, including zeros
  std::int64_t columns;  // a multiple of lanes

  [[nodiscard]] static std::int64_t padded(std::int64_t columns) {
    return round_up(columns, lanes);
  }
  [[nodiscard]] std::int64_t width(std::int64_t first_column) const {
    return std::min(tile_columns, columns - first_column);
  }
  // Row `row` of the panel that starts at `first_column`, a multiple of tile_columns.
  [[nodiscard]] float* at(std::int64_t row, std::int64_t first_column) const {
    return data + first_column * rows + row * width(first_column);
  }
};

// The tile of c for a panel of `width` (one or two) vectors.
template <bool unit_step>
[[gnu::noinline]] void panel_tile(std::int64_t width, bool accumulate, std::int64_t count,
                                  const LeftOperand& left, const float* b, float* c,
                                  std::int64_t c_row) {
  static_assert(tile_vectors == 2);
  if (width == tile_columns) {
    if (accumulate) {
      tile_matmul<2, true, unit_step>(count, left, b, 2 * lanes, c, c_row);
    } else {
      tile_matmul<2, false, unit_step>(count, left, b, 2 * lanes, c, c_row);
    }
  } else if (accumulate) {
    tile_matmul<1, true, unit_step>(count, left, b, 1 * lanes, c, c_row);
  } else {
    tile_matmul<1, false, unit_step>(count, left, b, 1 * lanes, c, c_row);
  }
}

}  // namespace trireme::ops::cpu
