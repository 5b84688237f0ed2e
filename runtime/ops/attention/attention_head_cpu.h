// SPDX-License-Identifier: Apache-2.0
// Private: attention's forward for one head with an online softmax, for a whole packed sample, some
// of its queries or the end of a text with cached keys: the same code, the same bits.
#pragma once

#include <cmath>
#include <limits>

#include "runtime/ops/attention/attention_block_cpu.h"
#include "runtime/ops/attention/attention_pack_cpu.h"
#include "runtime/ops/common/scratch.h"
#include "runtime/ops/common/vector_math_cpu.h"

namespace trireme::ops::cpu {

// Running state of the online softmax for one block of queries. Scores are compared unscaled, or
// capped.
struct Softmax {
  float top[query_block];
  float sum[query_block];

  // `sink`: the score of a key before all others, whose value is zero.
  void reset(float sink) {
    std::fill_n(top, query_block, sink);
    std::fill_n(sum, query_block, sink == -INFINITY ? 0.0F : 1.0F);
  }
};

// Replaces a row of scores by exp2(factor * (score - top)), zero outside [hidden, visible) up to
// `end` (a whole number of vectors). Returns the factor for the sums of earlier blocks.
inline float exponentiate_row(float* row, std::int64_t hidden, std::int64_t visible,
                              std::int64_t end, float factor, float& top, float& sum) {
  constexpr float minus_infinity = -std::numeric_limits<float>::infinity();
  if (visible <= hidden) {
    std::fill(row, row + end, 0.0F);
    return 1.0F;
  }
  std::fill(row, row + hidden, minus_infinity);
  std::fill(row + visible, row + end, minus_infinity);
  Vector largest = broadcast(top);
  for (std::int64_t i = 0; i < end; i += lanes)
    largest = maximum(largest, load_vector(row + i));
  const float new_top = maximum_of(largest);
  const Vector offset = broadcast(factor * new_top);
  Vector total{};
  for (std::int64_t i = 0; i < end; i += lanes) {
    const Vector e = exp2_vector(load_vector(row + i) * factor - offset);
    store_vector(row + i, e);
    total += e;
  }
  const float correction = top == new_top ? 1.0F : fast_exp2(factor * (top - new_top));
  top = new_top;
  sum = sum * correction + sum_of(total);
  return correction;
}

// Rows are numbered by position; `sizes.length` positions have keys.
template <typename T>
class HeadForward {
 public:
  explicit HeadForward(const AttentionSizes& sizes) : sizes_(sizes), w_(workspace(sizes)) {}

  // Packs keys and values of the next heads, for queries from this one on.
  void pack(const HeadRows<const T>& keys, const HeadRows<const T>& values,
            std::int64_t first_query) const {
    const std::int64_t first = first_block(first_query);
    pack_transposed(w_.keys, keys, sizes_.length, first);
    pack_panels(w_.values, values, sizes_.length, sizes_.size, first);
  }

  // The outputs of queries [first_query, sizes.length) of a head. lse: from the first query on, may
  // be null.
  void run(std::int64_t head, const HeadRows<T>& out, float* lse, const HeadRows<const T>& queries,
           std::int64_t first_query) const {
    for (std::int64_t query = first_query; query < sizes_.length; query += query_block) {
      const std::int64_t count = std::min(query_block, sizes_.length - query);
      pack_left(w_.queries, queries, query, count, round_up(count, tile_rows), sizes_.size);
      Softmax softmax;
      softmax.reset(sizes_.sink(head) / sizes_.score_scale);
      const std::int64_t end = sizes_.end_of_keys(query + count - 1);
      for (std::int64_t key = first_block(query); key < end; key += key_block)
        step({sizes_, query, count, key, std::min(key_block, sizes_.length - key)}, softmax);
      finish(softmax, query, count, out, lse == nullptr ? nullptr : lse + (query - first_query));
    }
  }

 private:
  struct Workspace {
    Panels keys;    // (size, length): transposed
    Panels values;  // (length, size)
    float* queries;
    float* scores;
    float* sums;  // (query_block, sums_stride): unnormalised output
    std::int64_t sums_stride;
  };

  [[nodiscard]] static Workspace workspace(const AttentionSizes& sizes) {
    static thread_local ScratchBlock scratch;
    const std::int64_t length = sizes.length, size = sizes.size;
    const std::int64_t padded_length = round_up(length, tile_columns);
    const std::int64_t padded_size = Panels::padded(size);
    const std::int64_t counts[] = {size * padded_length, length * padded_size, query_block * size,
                                   query_block * score_stride, query_block * padded_size};
    std::int64_t total = 0;
    for (const std::int64_t count : counts)
      total += round_up(count, 16);
    float* next = scratch.floats(static_cast<std::size_t>(total));
    float* parts[std::size(counts)];
    for (std::size_t i = 0; i < std::size(counts); ++i) {
      parts[i] = next;
      next += round_up(counts[i], 16);
    }
    return {{parts[0], size, padded_length},
            {parts[1], length, padded_size},
            parts[2],
            parts[3],
            parts[4],
            padded_size};
  }

  [[nodiscard]] std::int64_t first_block(std::int64_t query) const {
    return sizes_.first_key(query) / key_block * key_block;
  }

  // Processes one block of keys for one block of queries.
  void step(const Block& block, Softmax& softmax) const {
    block_scores(block, sizes_.size, w_.queries,
                 {w_.keys.at(0, block.key), sizes_.size, w_.keys.columns - block.key}, w_.scores);
    const float factor = sizes_.score_scale * log2_e;
    const bool first = block.first();
    const std::int64_t strips = block.strips();
    for (std::int64_t row = 0; row < strips * tile_rows; ++row) {
      const std::int64_t end = round_up(block.strip_visible(row / tile_rows), lanes);
      float* const scores = w_.scores + row * score_stride;
      if (sizes_.soft_cap > 0) cap_row(scores, end, sizes_);
      const float correction = exponentiate_row(scores, block.hidden(row), block.visible(row), end,
                                                factor, softmax.top[row], softmax.sum[row]);
      if (first || correction == 1.0F) continue;
      float* const sums = w_.sums + row * w_.sums_stride;
      for (std::int64_t i = 0; i < w_.sums_stride; i += lanes) {
        store_vector(sums + i, load_vector(sums + i) * correction);
      }
    }
    for (std::int64_t p = 0; p < w_.values.columns; p += tile_columns) {
      for (std::int64_t s = 0; s < strips; ++s) {
        const std::int64_t count = block.strip_seen(s), hidden = block.strip_hidden(s);
        if (count == 0 && !first) continue;
        panel_tile<true>(w_.values.width(p), !first, count,
                         {w_.scores + s * tile_rows * score_stride + hidden, score_stride, 1},
                         w_.values.at(block.key + hidden, p),
                         w_.sums + s * tile_rows * w_.sums_stride + p, w_.sums_stride);
      }
    }
  }

  void finish(const Softmax& softmax, std::int64_t first, std::int64_t count,
              const HeadRows<T>& out, float* lse) const {
    for (std::int64_t row = 0; row < count; ++row) {
      const float* const sums = w_.sums + row * w_.sums_stride;
      T* const to = out.row(first + row);
      const float inverse = 1.0F / softmax.sum[row];
#pragma omp simd
      for (std::int64_t i = 0; i < sizes_.size; ++i)
        store(to[i], sums[i] * inverse);
      if (lse != nullptr)
        lse[row] = softmax.top[row] * sizes_.score_scale + std::log(softmax.sum[row]);
    }
  }

  AttentionSizes sizes_;
  Workspace w_;
};

}  // namespace trireme::ops::cpu
