// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/attention/attention.h"
#include "runtime/ops/attention/attention_block_cpu.h"
#include "runtime/ops/attention/attention_pack_cpu.h"
#include "runtime/ops/common/scratch.h"
#include "runtime/ops/common/vector_math_cpu.h"

namespace trireme::ops::cpu {
namespace {

// Running state of the online softmax for one block of queries. Scores are compared unscaled, or
// capped.
struct Softmax {
  float top[query_block];
  float sum[query_block];

  void reset() {
    std::fill_n(top, query_block, -std::numeric_limits<float>::infinity());
    std::fill_n(sum, query_block, 0.0F);
  }
};

// Turns a row of scores into exp2(factor * (score - top)), zero outside [hidden, visible) up to
// `end` (a whole number of vectors). Returns what the sums of earlier blocks must be multiplied by.
float exponentiate_row(float* row, std::int64_t hidden, std::int64_t visible, std::int64_t end,
                       float factor, float& top, float& sum) {
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

template <typename T>
struct Forward {
  T* out;
  float* lse;
  const T* qkv;
  AttentionSizes sizes;

  struct Workspace {
    Panels keys;    // (size, length): transposed
    Panels values;  // (length, size)
    float* queries;
    float* scores;
    float* sums;  // (query_block, sums_stride): unnormalised output
    std::int64_t sums_stride;
  };

  [[nodiscard]] Workspace workspace() const {
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

  // One block of keys for one block of queries.
  void step(const Workspace& w, const Block& block, Softmax& softmax) const {
    block_scores(block, sizes.size, w.queries,
                 {w.keys.at(0, block.key), sizes.size, w.keys.columns - block.key}, w.scores);
    const float factor = sizes.score_scale * log2_e;
    const bool first = block.first();
    const std::int64_t strips = block.strips();
    for (std::int64_t row = 0; row < strips * tile_rows; ++row) {
      const std::int64_t end = round_up(block.strip_visible(row / tile_rows), lanes);
      float* const scores = w.scores + row * score_stride;
      if (sizes.soft_cap > 0) cap_row(scores, end, sizes);
      const float correction = exponentiate_row(scores, block.hidden(row), block.visible(row), end,
                                                factor, softmax.top[row], softmax.sum[row]);
      if (first || correction == 1.0F) continue;
      float* const sums = w.sums + row * w.sums_stride;
      for (std::int64_t i = 0; i < w.sums_stride; i += lanes) {
        store_vector(sums + i, load_vector(sums + i) * correction);
      }
    }
    for (std::int64_t p = 0; p < w.values.columns; p += tile_columns) {
      for (std::int64_t s = 0; s < strips; ++s) {
        const std::int64_t count = block.strip_seen(s), hidden = block.strip_hidden(s);
        if (count == 0 && !first) continue;
        panel_tile<true>(w.values.width(p), !first, count,
                         {w.scores + s * tile_rows * score_stride + hidden, score_stride, 1},
                         w.values.at(block.key + hidden, p),
                         w.sums + s * tile_rows * w.sums_stride + p, w.sums_stride);
      }
    }
  }

  void finish(const Workspace& w, const Softmax& softmax, std::int64_t first, std::int64_t count,
              const HeadRows<T>& head_out, float* head_lse) const {
    for (std::int64_t row = 0; row < count; ++row) {
      const float* const sums = w.sums + row * w.sums_stride;
      T* const to = head_out.row(first + row);
      const float inverse = 1.0F / softmax.sum[row];
#pragma omp simd
      for (std::int64_t i = 0; i < sizes.size; ++i)
        store(to[i], sums[i] * inverse);
      head_lse[first + row] = softmax.top[row] * sizes.score_scale + std::log(softmax.sum[row]);
    }
  }

  // Keys and values of the head's group are packed.
  void head(const Workspace& w, std::int64_t sample, std::int64_t head) const {
    const std::int64_t length = sizes.length;
    const HeadRows<const T> queries = sizes.queries(qkv, sample, head);
    for (std::int64_t query = 0; query < length; query += query_block) {
      const std::int64_t count = std::min(query_block, length - query);
      pack_left(w.queries, queries, query, count, round_up(count, tile_rows), sizes.size);
      Softmax softmax;
      softmax.reset();
      const std::int64_t end = sizes.end_of_keys(query + count - 1);
      for (std::int64_t key = sizes.first_key(query) / key_block * key_block; key < end;
           key += key_block) {
        step(w, {sizes, query, count, key, std::min(key_block, length - key)}, softmax);
      }
      finish(w, softmax, query, count, sizes.result(out, sample, head),
             lse + (sample * sizes.heads + head) * length);
    }
  }

  // Of the sample that its sizes have chosen.
  void sample(const Workspace& w, std::int64_t index) const {
    const std::int64_t group = sizes.group();
    for (std::int64_t key_head = 0; key_head < sizes.key_heads; ++key_head) {
      pack_transposed(w.keys, sizes.keys(qkv, index, key_head), 0, sizes.length);
      pack_panels(w.values, sizes.values(qkv, index, key_head), 0, sizes.length, sizes.size);
      for (std::int64_t member = 0; member < group; ++member)
        head(w, index, key_head * group + member);
    }
  }

  void operator()() const {
    const Workspace w = workspace();
    for (std::int64_t index = 0; index < sizes.batch; ++index) {
      Forward here = *this;
      here.sizes.choose(index);
      here.sample(w, index);
    }
  }
};

}  // namespace

void attention_forward(Stream& stream, const Tensor& out, const Tensor& lse, const Tensor& qkv,
                       const AttentionOptions& options) {
  if (qkv.count() == 0) return;
  visit_compute_dtype(qkv.dtype, [&](auto type) {
    using T = decltype(type);
    enqueue(stream, Forward<T>{out.as<T>(), lse.as<float>(), qkv.as<T>(), {qkv, options}});
  });
}

}  // namespace trireme::ops::cpu
