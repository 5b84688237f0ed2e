// SPDX-License-Identifier: Apache-2.0
// Private: f32 products from bf16 parts, on processors with bf16 tiles (AMX).
//
// Note [bf16x3 matmuls]: a float is the sum of three bf16 values, each rounded from the
// remainder of those before: three times 8 bits hold its 24. Six of the nine products of parts are
// summed in f32; the others are below 2^-25 of the product, less than one rounding of f32. Against
// references in f64 the error is at most that of f32 products
// (scripts/measurements/products_cpu.txt). Tiles flush parts and sums below 2^-126 to zero, so
// values below 2^-109 have fewer than 24 bits here, those below 2^-126 none. Infinite operands and
// those above 3.39e38 give NaN. As in Henry, Tang & Heinecke, "Leveraging the bfloat16 artificial
// intelligence datatype for higher-precision computations", 2019.
//
// An element is one sum in the order of the common axis, however rows and columns are cut: a row
// has the same bits alone, in any batch and in any split of the columns.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/ops/common/scratch.h"
#include "runtime/ops/gemm/linear_rows_cpu.h"
#include "runtime/ops/gemm/matmul_cpu.h"

namespace trireme::ops::cpu {

// Whether the program, the processor and the system have such tiles; an ONEDNN_MAX_CPU_ISA below
// AVX512_CORE_AMX disables them.
[[nodiscard]] bool multiplies_in_parts();

// Values along the common axis per tile; rows or columns of a tile and of a result.
inline constexpr std::int64_t part_depth = 32;
inline constexpr std::int64_t part_rows = 16;
inline constexpr std::int64_t part_result = 2 * part_rows;
// Blocks of rows and of the common axis: packed they fill a third of the second-level cache.
inline constexpr std::int64_t part_row_block = 256;
inline constexpr std::int64_t part_depth_block = 512;
// Columns that stay there while all rows of a block use them; result rows are written in between.
inline constexpr std::int64_t part_column_run = 256;
// Columns packed at a time: bounds the scratch for vocabularies.
inline constexpr std::int64_t part_column_block = 2048;

struct ResultTile {
  std::int64_t rows;
  std::int64_t columns;
  float* data;
  std::int64_t stride;
};

// Configures the calling thread's tiles during its life.
class PartTiles {
 public:
  PartTiles();
  ~PartTiles();
  PartTiles(const PartTiles&) = delete;
  PartTiles& operator=(const PartTiles&) = delete;
};

// Bytes of a packed operand of `count` rows or columns.
[[nodiscard]] constexpr std::int64_t part_bytes(std::int64_t count, std::int64_t depth) {
  const std::int64_t lines = (count + part_result - 1) / part_result * part_result;
  return lines * ((depth + part_depth - 1) / part_depth * part_depth) * 6;
}
// Packs rows [first, first + count) of a left operand (M, K), or columns of a right one (K, N), for
// `depth` values of the common axis from `at` on.
void pack_left_parts(std::byte* to, const MatrixView& a, std::int64_t first, std::int64_t count,
                     std::int64_t at, std::int64_t depth);
void pack_right_parts(std::byte* to, const MatrixView& b, std::int64_t first, std::int64_t count,
                      std::int64_t at, std::int64_t depth);
// tile = left right, or tile += left right; both packed, from the tile's first row and column.
void multiply_parts(const ResultTile& tile, const std::byte* left, const std::byte* right,
                    std::int64_t depth, bool accumulate);

// c(M, N) = a(M, K) b(K, N), or c += a b if `accumulate`; a and b as in `matmul`, c contiguous.
// Calls finish(row, column, tile) once a tile is complete.
template <typename Finish>
void split_matmul(std::int64_t m, std::int64_t n, std::int64_t k, const MatrixView& a,
                  const MatrixView& b, bool accumulate, float* c, Finish&& finish) {
  static thread_local ScratchBlock scratch;
  const std::int64_t deepest = std::min(part_depth_block, k);
  // With few rows, packed columns are used once and stay in the second-level cache until then.
  const std::int64_t column_block =
      std::min(n, m <= part_result ? part_column_run : part_column_block);
  const std::int64_t left_bytes = part_bytes(std::min(part_row_block, m), deepest);
  std::byte* const left =
      scratch.at_least(static_cast<std::size_t>(left_bytes + part_bytes(column_block, deepest)));
  std::byte* const right = left + left_bytes;
  const PartTiles tiles;
  for (std::int64_t block = 0; block < n; block += column_block) {
    const std::int64_t columns = std::min(column_block, n - block);
    for (std::int64_t at = 0; at < k; at += part_depth_block) {
      const std::int64_t depth = std::min(part_depth_block, k - at);
      pack_right_parts(right, b, block, columns, at, depth);
      for (std::int64_t first = 0; first < m; first += part_row_block) {
        const std::int64_t rows = std::min(part_row_block, m - first);
        pack_left_parts(left, a, first, rows, at, depth);
        for (std::int64_t part = 0; part < columns; part += part_column_run) {
          const std::int64_t end = std::min(columns, part + part_column_run);
          for (std::int64_t row = 0; row < rows; row += part_result) {
            for (std::int64_t column = part; column < end; column += part_result) {
              const ResultTile tile{std::min(part_result, rows - row),
                                    std::min(part_result, columns - column),
                                    c + (first + row) * n + block + column, n};
              multiply_parts(tile, left + part_bytes(row, depth), right + part_bytes(column, depth),
                             depth, accumulate || at > 0);
              if (at + depth == k) finish(first + row, block + column, tile);
            }
          }
        }
      }
    }
  }
}

// What split_matmul does to a tile of y(N, O) while it is in the first-level cache.
struct AddBiasResidual {
  const float* bias;      // may be null
  const float* residual;  // as y; may be null

  void operator()(std::int64_t row, std::int64_t column, const ResultTile& tile) const {
    if (bias == nullptr && residual == nullptr) return;
    finish_rows(tile.data, tile.stride, tile.data, tile.stride,
                bias == nullptr ? nullptr : bias + column,
                residual == nullptr ? nullptr : residual + row * tile.stride + column, tile.stride,
                tile.rows, tile.columns);
  }
};

inline constexpr auto nothing_more = [](std::int64_t, std::int64_t, const ResultTile&) {};

}  // namespace trireme::ops::cpu
