// SPDX-License-Identifier: Apache-2.0
// Private: what attention's forward and backward share: the blocking of the (query, key) plane and
// the scores of one block.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/ops/gemm/matmul_tile_cpu.h"

namespace trireme::ops::cpu {

// Both are whole numbers of tile_rows and of tile_columns at every vector width. A block of scores
// and the keys' panels fill about half of the first-level cache at head size 64.
inline constexpr std::int64_t query_block = 48;
inline constexpr std::int64_t key_block = 96;
// Rows of a block of scores lie this far apart: not a power of two.
inline constexpr std::int64_t score_stride = key_block + 16;
static_assert(query_block % tile_rows == 0 && key_block % tile_rows == 0);
static_assert(key_block % tile_columns == 0);

// Block of queries [query, query + queries) and keys [key, key + keys); a query sees keys up to its
// own position.
struct Block {
  std::int64_t query;
  std::int64_t queries;
  std::int64_t key;
  std::int64_t keys;

  [[nodiscard]] std::int64_t strips() const { return (queries + tile_rows - 1) / tile_rows; }
  // Keys of this block that the query in row `row` sees; none or fewer means not any.
  [[nodiscard]] std::int64_t visible(std::int64_t row) const {
    return std::min(keys, query + row + 1 - key);
  }
  // Keys that any query of the strip sees.
  [[nodiscard]] std::int64_t strip_visible(std::int64_t strip) const {
    return visible((strip + 1) * tile_rows - 1);
  }
};

// scores = left * right for the part of the block that is visible, in whole tiles: the rows of
// queries (head size `size`, contiguous) times the transposed keys. Panels are the outer loop: one
// stays in the first-level cache while all strips use it.
inline void block_scores(const Block& block, std::int64_t size, const float* left,
                         const Panels& right, float* scores) {
  const std::int64_t strips = block.strips();
  const std::int64_t end = block.strip_visible(strips - 1);
  for (std::int64_t p = 0; p < end; p += tile_columns) {
    for (std::int64_t s = 0; s < strips; ++s) {
      if (block.strip_visible(s) <= p) continue;
      panel_tile<true>(tile_columns, false, size, {left + s * tile_rows * size, size, 1},
                       right.at(0, p), scores + s * tile_rows * score_stride + p, score_stride);
    }
  }
}

}  // namespace trireme::ops::cpu
