// SPDX-License-Identifier: Apache-2.0
// Private: shared by attention's forward and backward: the blocking of the (query, key) plane and
// the scores of one block.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/ops/attention/attention_sizes.h"
#include "runtime/ops/gemm/matmul_tile_cpu.h"

namespace trireme::ops::cpu {

// Both are multiples of tile_rows and tile_columns at every vector width. A block of scores and the
// key panels fill about half of the first-level cache at head size 64.
inline constexpr std::int64_t query_block = 48;
inline constexpr std::int64_t key_block = 96;
// Distance between rows of scores; not a power of two.
inline constexpr std::int64_t score_stride = key_block + 16;
static_assert(query_block % tile_rows == 0 && key_block % tile_rows == 0);
static_assert(key_block % tile_columns == 0);

// Block of queries [query, query + queries) and keys [key, key + keys). The query in row `row`
// attends to keys [hidden(row), visible(row)) of the block, possibly none.
struct Block {
  const AttentionSizes& sizes;
  std::int64_t query;
  std::int64_t queries;
  std::int64_t key;
  std::int64_t keys;

  [[nodiscard]] std::int64_t strips() const { return (queries + tile_rows - 1) / tile_rows; }
  [[nodiscard]] std::int64_t hidden(std::int64_t row) const {
    return std::clamp<std::int64_t>(sizes.first_key(query + row) - key, 0, keys);
  }
  [[nodiscard]] std::int64_t visible(std::int64_t row) const {
    const bool whole = !sizes.causal && sizes.starts == nullptr;
    const std::int64_t end = sizes.causal ? query + row + 1 : sizes.end_of_keys(query + row);
    return std::clamp<std::int64_t>(whole ? keys : end - key, 0, keys);
  }
  // The same over all queries of a strip.
  [[nodiscard]] std::int64_t strip_hidden(std::int64_t strip) const {
    return hidden(strip * tile_rows);
  }
  [[nodiscard]] std::int64_t strip_visible(std::int64_t strip) const {
    return visible((strip + 1) * tile_rows - 1);
  }
  // Number of keys in a sum over a strip's keys, from strip_hidden on.
  [[nodiscard]] std::int64_t strip_seen(std::int64_t strip) const {
    return std::max<std::int64_t>(strip_visible(strip) - strip_hidden(strip), 0);
  }
  // Whether no earlier block of keys is visible to these queries.
  [[nodiscard]] bool first() const { return key == sizes.first_key(query) / key_block * key_block; }
};

// scores = left * right for the visible part of the block, in whole tiles: rows of queries (head
// size `size`, contiguous) times transposed keys. Panels are the outer loop: one stays in the
// first-level cache while all strips use it.
inline void block_scores(const Block& block, std::int64_t size, const float* left,
                         const Panels& right, float* scores) {
  const std::int64_t strips = block.strips();
  const std::int64_t end = block.strip_visible(strips - 1);
  for (std::int64_t p = 0; p < end; p += tile_columns) {
    for (std::int64_t s = 0; s < strips; ++s) {
      if (block.strip_visible(s) <= p || block.strip_hidden(s) >= p + tile_columns) continue;
      panel_tile<true>(tile_columns, false, size, {left + s * tile_rows * size, size, 1},
                       right.at(0, p), scores + s * tile_rows * score_stride + p, score_stride);
    }
  }
}

// 1 - 2 / (1 + e^2x); near zero, where that cancels, the odd polynomial of its series.
[[gnu::always_inline]] inline Vector tanh_vector(Vector x) {
  const Vector square = x * x;
  Vector series = broadcast(62.0F / 2835.0F);
  series = series * square - 17.0F / 315.0F;
  series = series * square + 2.0F / 15.0F;
  series = series * square - 1.0F / 3.0F;
  const Vector large = 1.0F - 2.0F / (1.0F + exp_vector(2.0F * x));
  return square < 0.0625F ? x + x * square * series : large;
}

// Applies the soft cap to scores and scales them, in place: [0, end) of a row, whole vectors.
inline void cap_row(float* row, std::int64_t end, const AttentionSizes& sizes) {
  const float inverse = sizes.scale / sizes.soft_cap;
  for (std::int64_t i = 0; i < end; i += lanes)
    store_vector(row + i, sizes.soft_cap * tanh_vector(load_vector(row + i) * inverse));
}

}  // namespace trireme::ops::cpu
