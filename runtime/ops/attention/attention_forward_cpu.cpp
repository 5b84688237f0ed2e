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

// Running state of the online softmax for one block of queries. Scores are compared unscaled.
struct Softmax {
  float top[query_block];
  float sum[query_block];

  void reset() {
    std::fill_n(top, query_block, -std::numeric_limits<float>::infinity());
    std::fill_n(sum, query_block, 0.0F);
  }
};

// Turns a row of scores into exp2(factor * (score - top)), zero beyond `visible` up to `end` (a
// whole number of vectors). Returns what the sums of earlier blocks must be multiplied by.
float exponentiate_row(float* row, std::int64_t visible, std::int64_t end, float factor, float& top,
                       float& sum) {
  constexpr float minus_infinity = -std::numeric_limits<float>::infinity();
  std::fill(row + std::max<std::int64_t>(visible, 0), row + end, minus_infinity);
  if (visible <= 0) {
    std::fill(row, row + end, 0.0F);
    return 1.0F;
  }
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
  std::int64_t batch;
  std::int64_t length;
  std::int64_t heads;
  std::int64_t size;

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
    const std::int64_t padded_length = round_up(length, tile_columns);
    const std::int64_t padded_size = Panels::padded(size);
    const std::int64_t sizes[] = {size * padded_length, length * padded_size, query_block * size,
                                  query_block * score_stride, query_block * padded_size};
    std::int64_t total = 0;
    for (const std::int64_t count : sizes)
      total += round_up(count, 16);
    float* next = scratch.floats(static_cast<std::size_t>(total));
    float* parts[std::size(sizes)];
    for (std::size_t i = 0; i < std::size(sizes); ++i) {
      parts[i] = next;
      next += round_up(sizes[i], 16);
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
    block_scores(block, size, w.queries,
                 {w.keys.at(0, block.key), size, w.keys.columns - block.key}, w.scores);
    const auto factor = static_cast<float>(1.0 / std::sqrt(static_cast<double>(size))) * log2_e;
    const bool first = block.key == 0;
    const std::int64_t strips = block.strips();
    for (std::int64_t row = 0; row < strips * tile_rows; ++row) {
      const std::int64_t end =
          round_up(std::max<std::int64_t>(block.strip_visible(row / tile_rows), 0), lanes);
      const float correction = exponentiate_row(w.scores + row * score_stride, block.visible(row),
                                                end, factor, softmax.top[row], softmax.sum[row]);
      if (first || correction == 1.0F) continue;
      float* const sums = w.sums + row * w.sums_stride;
      for (std::int64_t i = 0; i < w.sums_stride; i += lanes) {
        store_vector(sums + i, load_vector(sums + i) * correction);
      }
    }
    for (std::int64_t p = 0; p < w.values.columns; p += tile_columns) {
      for (std::int64_t s = 0; s < strips; ++s) {
        const std::int64_t count = block.strip_visible(s);
        if (count <= 0) continue;
        panel_tile<true>(w.values.width(p), !first, count,
                         {w.scores + s * tile_rows * score_stride, score_stride, 1},
                         w.values.at(block.key, p), w.sums + s * tile_rows * w.sums_stride + p,
                         w.sums_stride);
      }
    }
  }

  void finish(const Workspace& w, const Softmax& softmax, std::int64_t first, std::int64_t count,
              T* head_out, float* head_lse) const {
    const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(size)));
    for (std::int64_t row = 0; row < count; ++row) {
      const float* const sums = w.sums + row * w.sums_stride;
      T* const to = head_out + (first + row) * heads * size;
      const float inverse = 1.0F / softmax.sum[row];
#pragma omp simd
      for (std::int64_t i = 0; i < size; ++i)
        store(to[i], sums[i] * inverse);
      head_lse[first + row] = softmax.top[row] * scale + std::log(softmax.sum[row]);
    }
  }

  // Part 0: queries, 1: keys, 2: values. Heads are counted through all samples.
  [[nodiscard]] HeadRows<const T> part(std::int64_t index, std::int64_t which) const {
    const std::int64_t stride = 3 * heads * size;
    const std::int64_t sample = index / heads;
    const std::int64_t head = index % heads;
    return {qkv + sample * length * stride + (which * heads + head) * size, stride};
  }

  void head(const Workspace& w, std::int64_t index) const {
    const HeadRows<const T> queries = part(index, 0);
    const HeadRows<const T> keys = part(index, 1);
    const HeadRows<const T> values = part(index, 2);
    const std::int64_t sample = index / heads;
    pack_transposed(w.keys, keys, 0, length);
    pack_panels(w.values, values, 0, length, size);
    for (std::int64_t query = 0; query < length; query += query_block) {
      const std::int64_t count = std::min(query_block, length - query);
      pack_left(w.queries, queries, query, count, round_up(count, tile_rows), size);
      Softmax softmax;
      softmax.reset();
      for (std::int64_t key = 0; key < query + count; key += key_block) {
        step(w, {query, count, key, std::min(key_block, length - key)}, softmax);
      }
      finish(w, softmax, query, count, out + (sample * length * heads + index % heads) * size,
             lse + index * length);
    }
  }

  void operator()() const {
    const Workspace w = workspace();
    for (std::int64_t index = 0; index < batch * heads; ++index)
      head(w, index);
  }
};

}  // namespace

void attention_forward(Stream& stream, const Tensor& out, const Tensor& lse, const Tensor& qkv,
                       std::int64_t heads) {
  if (qkv.count() == 0) return;
  visit_compute_dtype(qkv.dtype, [&](auto type) {
    using T = decltype(type);
    enqueue(stream, Forward<T>{out.as<T>(), lse.as<float>(), qkv.as<T>(), qkv.shape[0],
                               qkv.shape[1], heads, qkv.shape[2] / (3 * heads)});
  });
}

}  // namespace trireme::ops::cpu
