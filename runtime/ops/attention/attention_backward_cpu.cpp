// SPDX-License-Identifier: Apache-2.0
// With P = softmax(scale Q K^T), O = P V and delta = rowsum(dO * O):
//   dV = P^T dO;  dS = P * (dO V^T - delta);  dQ = scale dS K;  dK = scale dS^T Q.
// A soft cap multiplies dS by its slope, 1 - (capped score / cap)^2. Blocks of keys are the outer
// loop, so dK and dV of a head are complete after one pass over the queries; dQ grows over the
// blocks of keys in a fixed order. dK and dV of a group grow over its heads in their order. A sink
// is a key with V = 0: its gradient is the sum of P * -delta over the queries.
#include <cmath>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/attention/attention.h"
#include "runtime/ops/attention/attention_block_cpu.h"
#include "runtime/ops/attention/attention_pack_cpu.h"
#include "runtime/ops/common/scratch.h"
#include "runtime/ops/common/vector_math_cpu.h"

namespace trireme::ops::cpu {
namespace {

// Scores become probabilities, and `slopes` (dO V^T) become dS; both are zero for keys that a query
// does not attend to, up to the end of the block of keys.
void differentiate_row(float* scores, float* slopes, std::int64_t hidden, std::int64_t visible,
                       std::int64_t computed, const AttentionSizes& sizes, float log2_sum,
                       float delta) {
  const std::int64_t seen = visible > hidden ? visible : 0;
  const std::int64_t end = std::min(computed, round_up(seen, lanes));
  const float factor = sizes.score_scale * log2_e;
  if (sizes.soft_cap > 0) {
    cap_row(scores, end, sizes);
    const float inverse = 1.0F / sizes.soft_cap;
    for (std::int64_t i = 0; i < end; i += lanes) {
      const Vector share = load_vector(scores + i) * inverse;
      const Vector p = exp2_vector(load_vector(scores + i) * factor - log2_sum);
      store_vector(scores + i, p);
      store_vector(slopes + i, p * (load_vector(slopes + i) - delta) * (1.0F - share * share));
    }
  } else {
    for (std::int64_t i = 0; i < end; i += lanes) {
      const Vector p = exp2_vector(load_vector(scores + i) * factor - log2_sum);
      store_vector(scores + i, p);
      store_vector(slopes + i, p * (load_vector(slopes + i) - delta));
    }
  }
  std::fill(scores, scores + std::min(hidden, seen), 0.0F);
  std::fill(slopes, slopes + std::min(hidden, seen), 0.0F);
  if (seen == key_block) return;
  std::fill(scores + seen, scores + key_block, 0.0F);
  std::fill(slopes + seen, slopes + key_block, 0.0F);
}

struct Workspace {
  float* queries;         // (length, size) left operand
  float* slopes;          // (length, size) left operand: dO
  Panels query_panels;    // (length, size)
  Panels slope_panels;    // (length, size)
  float* query_gradient;  // (length, stride)
  float* log2_sum;        // (length)
  float* delta;           // (length)
  Panels keys;            // (size, key_block)
  Panels values;          // (size, key_block)
  Panels key_panels;      // (key_block, size)
  float* key_gradient;    // (key_rows, stride)
  float* value_gradient;  // (key_rows, stride)
  float* scores;          // (query_block, score_stride)
  float* score_slopes;    // (query_block, score_stride)
  float* sink_sums;       // (heads)
  std::int64_t stride;
  std::int64_t key_rows;  // one block of keys, or all keys if heads share them

  explicit Workspace(const AttentionSizes& sizes)
      : stride(Panels::padded(sizes.size)),
        key_rows(sizes.group() == 1 ? key_block : round_up(sizes.length, key_block)) {
    const std::int64_t size = sizes.size, rows = round_up(sizes.length, query_block);
    const std::int64_t counts[] = {rows * size,
                                   rows * size,
                                   rows * stride,
                                   rows * stride,
                                   rows * stride,
                                   rows,
                                   rows,
                                   size * key_block,
                                   size * key_block,
                                   key_block * stride,
                                   key_rows * stride,
                                   key_rows * stride,
                                   query_block * score_stride,
                                   query_block * score_stride,
                                   sizes.heads};
    std::int64_t total = 0;
    for (const std::int64_t count : counts)
      total += round_up(count, 16);
    static thread_local ScratchBlock scratch;
    float* next = scratch.floats(static_cast<std::size_t>(total));
    std::size_t index = 0;
    const auto take = [&] { return std::exchange(next, next + round_up(counts[index++], 16)); };
    queries = take();
    slopes = take();
    query_panels = {take(), rows, stride};
    slope_panels = {take(), rows, stride};
    query_gradient = take();
    log2_sum = take();
    delta = take();
    keys = {take(), size, key_block};
    values = {take(), size, key_block};
    key_panels = {take(), key_block, stride};
    key_gradient = take();
    value_gradient = take();
    scores = take();
    score_slopes = take();
    sink_sums = take();
  }
};

template <typename T>
struct Backward {
  T* dqkv;
  const T* dout;
  const T* out;
  const float* lse;
  const T* qkv;
  float* dsinks;  // may be null
  AttentionSizes sizes;

  // Packs everything that belongs to queries, once per head.
  void pack_queries(const Workspace& w, const HeadRows<const T>& queries,
                    const HeadRows<const T>& slopes, const HeadRows<const T>& outputs,
                    const float* head_lse) const {
    const std::int64_t rows = w.query_panels.rows, length = sizes.length, size = sizes.size;
    pack_left(w.queries, queries, 0, length, rows, size);
    pack_left(w.slopes, slopes, 0, length, rows, size);
    pack_panels(w.query_panels, queries, length, size);
    pack_panels(w.slope_panels, slopes, length, size);
    for (std::int64_t row = 0; row < length; ++row) {
      const T* const o = outputs.row(row);
      const float* const d = w.slopes + row * size;
      float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t i = 0; i < size; ++i)
        sum += d[i] * load(o[i]);
      w.delta[row] = sum;
      w.log2_sum[row] = head_lse[row] * log2_e;
    }
    std::fill(w.delta + length, w.delta + rows, 0.0F);
    std::fill(w.log2_sum + length, w.log2_sum + rows, 0.0F);
  }

  // gradient(keys, size) += left^T right: the strips are keys, the common axis is the queries that
  // attend to them.
  void add_key_gradient(const Block& block, const float* left, const Panels& right, float* gradient,
                        std::int64_t stride) const {
    for (std::int64_t p = 0; p < stride; p += tile_columns) {
      for (std::int64_t k = 0; k < block.keys; k += tile_rows) {
        const std::int64_t key = block.key + k;
        const std::int64_t first = std::max<std::int64_t>(0, sizes.first_query(key) - block.query);
        const std::int64_t end =
            std::min(block.queries, sizes.end_of_queries(key + tile_rows - 1) - block.query);
        if (first >= end) continue;
        panel_tile<false>(right.width(p), true, end - first,
                          {left + first * score_stride + k, 1, score_stride},
                          right.at(block.query + first, p), gradient + k * stride + p, stride);
      }
    }
  }

  void step(const Workspace& w, const Block& block) const {
    const std::int64_t at = block.query * sizes.size;
    block_scores(block, sizes.size, w.queries + at, w.keys, w.scores);
    block_scores(block, sizes.size, w.slopes + at, w.values, w.score_slopes);
    const std::int64_t strips = block.strips();
    for (std::int64_t row = 0; row < strips * tile_rows; ++row) {
      const std::int64_t computed = round_up(block.strip_visible(row / tile_rows), tile_columns);
      differentiate_row(w.scores + row * score_stride, w.score_slopes + row * score_stride,
                        block.hidden(row), block.visible(row), computed, sizes,
                        w.log2_sum[block.query + row], w.delta[block.query + row]);
    }
    const std::int64_t key_at = block.key % w.key_rows * w.stride;
    add_key_gradient(block, w.scores, w.slope_panels, w.value_gradient + key_at, w.stride);
    add_key_gradient(block, w.score_slopes, w.query_panels, w.key_gradient + key_at, w.stride);
    const bool first = block.first();
    for (std::int64_t p = 0; p < w.stride; p += tile_columns) {
      for (std::int64_t s = 0; s < strips; ++s) {
        const std::int64_t count = block.strip_seen(s), hidden = block.strip_hidden(s);
        if (count == 0 && !first) continue;
        const std::int64_t row = s * tile_rows;
        panel_tile<true>(w.key_panels.width(p), !first, count,
                         {w.score_slopes + row * score_stride + hidden, score_stride, 1},
                         w.key_panels.at(hidden, p),
                         w.query_gradient + (block.query + row) * w.stride + p, w.stride);
      }
    }
  }

  void write(const HeadRows<T>& to, std::int64_t first, const float* from, std::int64_t from_stride,
             std::int64_t rows, float factor) const {
    for (std::int64_t row = 0; row < rows; ++row) {
      T* const out_row = to.row(first + row);
      const float* const in = from + row * from_stride;
#pragma omp simd
      for (std::int64_t i = 0; i < sizes.size; ++i)
        store(out_row[i], in[i] * factor);
    }
  }

  // Of a sample.
  [[nodiscard]] float sink_gradient(const Workspace& w, std::int64_t head) const {
    const float sink = sizes.sink(head) * log2_e;
    double sum = 0;
    for (std::int64_t row = 0; row < sizes.length; ++row)
      sum -= static_cast<double>(fast_exp2(sink - w.log2_sum[row]) * w.delta[row]);
    return static_cast<float>(sum);
  }

  void head(const Workspace& w, std::int64_t sample, std::int64_t head) const {
    const std::int64_t length = sizes.length, group = sizes.group(), key_head = head / group;
    const HeadRows<const T> keys = sizes.keys(qkv, sample, key_head);
    const HeadRows<const T> values = sizes.values(qkv, sample, key_head);
    pack_queries(w, sizes.queries(qkv, sample, head), sizes.result(dout, sample, head),
                 sizes.result(out, sample, head), lse + (sample * sizes.heads + head) * length);
    for (std::int64_t key = 0; key < length; key += key_block) {
      const std::int64_t count = std::min(key_block, length - key);
      float* const key_gradient = w.key_gradient + key % w.key_rows * w.stride;
      float* const value_gradient = w.value_gradient + key % w.key_rows * w.stride;
      pack_transposed(w.keys, keys.from(-key), count);
      pack_transposed(w.values, values.from(-key), count);
      pack_panels(w.key_panels, keys.from(-key), count, sizes.size);
      if (head % group == 0) {
        std::fill_n(key_gradient, key_block * w.stride, 0.0F);
        std::fill_n(value_gradient, key_block * w.stride, 0.0F);
      }
      const std::int64_t end = sizes.end_of_queries(key + count - 1);
      for (std::int64_t query = sizes.first_query(key) / query_block * query_block; query < end;
           query += query_block) {
        step(w, {sizes, query, std::min(query_block, length - query), key, count});
      }
      if (head % group + 1 < group) continue;
      write(sizes.keys(dqkv, sample, key_head), key, key_gradient, w.stride, count, sizes.scale);
      write(sizes.values(dqkv, sample, key_head), key, value_gradient, w.stride, count, 1.0F);
    }
    write(sizes.queries(dqkv, sample, head), 0, w.query_gradient, w.stride, length, sizes.scale);
  }

  void operator()() const {
    const Workspace w(sizes);
    std::fill_n(w.sink_sums, sizes.heads, 0.0F);
    for (std::int64_t sample = 0; sample < sizes.batch; ++sample) {
      Backward here = *this;
      here.sizes.choose(sample);
      for (std::int64_t index = 0; index < sizes.heads; ++index) {
        here.head(w, sample, index);
        if (dsinks != nullptr) w.sink_sums[index] += sink_gradient(w, index);
      }
    }
    for (std::int64_t index = 0; dsinks != nullptr && index < sizes.heads; ++index)
      dsinks[index] += w.sink_sums[index];
  }
};

}  // namespace

void attention_backward(Stream& stream, const Tensor& dqkv, const Tensor& dout, const Tensor& out,
                        const Tensor& lse, const Tensor& qkv, const AttentionOptions& options,
                        const Tensor& dsinks) {
  if (qkv.count() == 0) return;
  visit_compute_dtype(qkv.dtype, [&](auto type) {
    using T = decltype(type);
    enqueue(stream, Backward<T>{dqkv.as<T>(),
                                dout.as<T>(),
                                out.as<T>(),
                                lse.as<float>(),
                                qkv.as<T>(),
                                dsinks.empty() ? nullptr : dsinks.as<float>(),
                                {qkv, options}});
  });
}

}  // namespace trireme::ops::cpu
