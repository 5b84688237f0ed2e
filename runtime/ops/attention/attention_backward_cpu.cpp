// SPDX-License-Identifier: Apache-2.0
// With P = softmax(scale Q K^T), O = P V and delta = rowsum(dO * O):
//   dV = P^T dO;  dS = P * (dO V^T - delta);  dQ = scale dS K;  dK = scale dS^T Q.
// A soft cap multiplies dS by its slope, 1 - (capped score / cap)^2. Blocks of keys are the outer
// loop, so dK and dV of a head are complete after one pass over the queries; dQ grows over the
// blocks of keys in a fixed order. dK and dV of a group grow over its heads in their order. A sink
// is a key with V = 0: its gradient is the sum of P * -delta over the queries. Positions number
// queries and keys; the workspace begins with the first query.
#include <cmath>

#include "runtime/device/cpu/cpu_stream.h"
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
  float* queries;         // (queries, size) left operand
  float* slopes;          // (queries, size) left operand: dO
  Panels query_panels;    // (queries, size)
  Panels slope_panels;    // (queries, size)
  float* query_gradient;  // (queries, stride)
  float* log2_sum;        // (queries)
  float* delta;           // (queries)
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
    const std::int64_t size = sizes.size, rows = round_up(sizes.queries(), query_block);
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
  const T* keys;
  const T* values;
  T* dkeys;  // overwritten; null: the sums are added to
  T* dvalues;
  float* key_sums;
  float* value_sums;
  float* dsinks;  // may be null
  AttentionSizes sizes;

  // Packs everything that belongs to queries, once per head.
  void pack_queries(const Workspace& w, const HeadRows<const T>& queries,
                    const HeadRows<const T>& slopes, const HeadRows<const T>& outputs,
                    const float* head_lse) const {
    const std::int64_t rows = w.query_panels.rows, count = sizes.queries(), size = sizes.size;
    pack_left(w.queries, queries, 0, count, rows, size);
    pack_left(w.slopes, slopes, 0, count, rows, size);
    pack_panels(w.query_panels, queries, count, size);
    pack_panels(w.slope_panels, slopes, count, size);
    for (std::int64_t row = 0; row < count; ++row) {
      const T* const o = outputs.row(row);
      const float* const d = w.slopes + row * size;
      float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t i = 0; i < size; ++i)
        sum += d[i] * load(o[i]);
      w.delta[row] = sum;
      w.log2_sum[row] = head_lse[row] * log2_e;
    }
    std::fill(w.delta + count, w.delta + rows, 0.0F);
    std::fill(w.log2_sum + count, w.log2_sum + rows, 0.0F);
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
        panel_tile<false>(
            right.width(p), true, end - first, {left + first * score_stride + k, 1, score_stride},
            right.at(block.query - sizes.first + first, p), gradient + k * stride + p, stride);
      }
    }
  }

  void step(const Workspace& w, const Block& block) const {
    const std::int64_t at = block.query - sizes.first;
    block_scores(block, sizes.size, w.queries + at * sizes.size, w.keys, w.scores);
    block_scores(block, sizes.size, w.slopes + at * sizes.size, w.values, w.score_slopes);
    const std::int64_t strips = block.strips();
    for (std::int64_t row = 0; row < strips * tile_rows; ++row) {
      const std::int64_t computed = round_up(block.strip_visible(row / tile_rows), tile_columns);
      differentiate_row(w.scores + row * score_stride, w.score_slopes + row * score_stride,
                        block.hidden(row), block.visible(row), computed, sizes,
                        w.log2_sum[at + row], w.delta[at + row]);
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
                         w.key_panels.at(hidden, p), w.query_gradient + (at + row) * w.stride + p,
                         w.stride);
      }
    }
  }

  // Results are those of positions from `first` on.
  template <bool adds = false, typename R>
  void write(const HeadRows<R>& result, std::int64_t first, const float* computed,
             std::int64_t stride, std::int64_t rows, float factor) const {
    for (std::int64_t row = 0; row < rows; ++row) {
      R* const out_row = result.row(first + row);
      const float* const in = computed + row * stride;
#pragma omp simd
      for (std::int64_t i = 0; i < sizes.size; ++i)
        store(out_row[i], adds ? load(out_row[i]) + in[i] * factor : in[i] * factor);
    }
  }

  // Of a sample.
  [[nodiscard]] float sink_gradient(const Workspace& w, std::int64_t head) const {
    const float sink = sizes.sink(head) * log2_e;
    double sum = 0;
    for (std::int64_t row = 0; row < sizes.queries(); ++row)
      sum -= static_cast<double>(fast_exp2(sink - w.log2_sum[row]) * w.delta[row]);
    return static_cast<float>(sum);
  }

  void head(const Workspace& w, std::int64_t sample, std::int64_t head) const {
    const std::int64_t first = sizes.first, length = sizes.length;
    const std::int64_t group = sizes.group(), key_head = head / group;
    const HeadRows<const T> own_keys = sizes.key_rows(keys, sample, key_head);
    const HeadRows<const T> own_values = sizes.key_rows(values, sample, key_head);
    const HeadRows<T> queries = sizes.queries(dqkv, sample, head);
    pack_queries(w, sizes.queries(qkv, sample, head).from(0),
                 sizes.result(dout, sample, head).from(0), sizes.result(out, sample, head).from(0),
                 lse + sizes.lse_of(sample, head));
    for (std::int64_t key = sizes.first_key(first) / key_block * key_block; key < length;
         key += key_block) {
      const std::int64_t count = std::min(key_block, length - key);
      float* const key_gradient = w.key_gradient + key % w.key_rows * w.stride;
      float* const value_gradient = w.value_gradient + key % w.key_rows * w.stride;
      pack_transposed(w.keys, own_keys.from(-key), count);
      pack_transposed(w.values, own_values.from(-key), count);
      pack_panels(w.key_panels, own_keys.from(-key), count, sizes.size);
      if (head % group == 0) {
        std::fill_n(key_gradient, key_block * w.stride, 0.0F);
        std::fill_n(value_gradient, key_block * w.stride, 0.0F);
      }
      const std::int64_t end = sizes.end_of_queries(key + count - 1);
      const std::int64_t skipped = (sizes.first_query(key) - first) / query_block * query_block;
      for (std::int64_t query = first + skipped; query < end; query += query_block)
        step(w, {sizes, query, std::min(query_block, length - query), key, count});
      if (head % group + 1 < group) continue;
      if (dkeys == nullptr) {
        write<true>(sizes.key_rows(key_sums, sample, key_head), key, key_gradient, w.stride, count,
                    sizes.scale);
        write<true>(sizes.key_rows(value_sums, sample, key_head), key, value_gradient, w.stride,
                    count, 1.0F);
      } else {
        write(sizes.key_rows(dkeys, sample, key_head), key, key_gradient, w.stride, count,
              sizes.scale);
        write(sizes.key_rows(dvalues, sample, key_head), key, value_gradient, w.stride, count,
              1.0F);
      }
    }
    write(queries, first, w.query_gradient, w.stride, length - first, sizes.scale);
  }

  void operator()() const {
    const Workspace w(sizes);
    std::fill_n(w.sink_sums, sizes.heads, 0.0F);
    for (std::int64_t sample = 0; sample < sizes.batch; ++sample) {
      Backward here = *this;
      here.sizes.choose(sample);
      for (std::int64_t i = 0; i < sizes.head_count(); ++i) {
        const std::int64_t index = sizes.first_head() + i;
        here.head(w, sample, index);
        if (dsinks != nullptr) w.sink_sums[index] += sink_gradient(w, index);
      }
    }
    for (std::int64_t i = 0; dsinks != nullptr && i < sizes.head_count(); ++i)
      dsinks[sizes.first_head() + i] += w.sink_sums[sizes.first_head() + i];
  }
};

}  // namespace

void attention_backward(Stream& stream, const Tensor& dqkv, const Tensor& dout, const Tensor& out,
                        const Tensor& lse, const Tensor& qkv, const AttentionOptions& options,
                        const Tensor& dsinks) {
  if (qkv.count() == 0) return;
  const AttentionSizes sizes(qkv, options);
  visit_compute_dtype(qkv.dtype, [&]<typename T>(T) {
    const T* const from = qkv.as<T>();
    T* const to = dqkv.as<T>();
    enqueue(stream, Backward<T>{to, dout.as<T>(), out.as<T>(), lse.as<float>(), from,
                                sizes.keys_in(from), sizes.values_in(from), sizes.keys_in(to),
                                sizes.values_in(to), /*key_sums=*/nullptr, /*value_sums=*/nullptr,
                                dsinks.empty() ? nullptr : dsinks.as<float>(), sizes});
  });
}

void attention_part_backward(Stream& stream, const Tensor& dqkv, const Tensor& dkeys,
                             const Tensor& dvalues, const Tensor& dout, const Tensor& out,
                             const Tensor& lse, const Tensor& qkv, const Tensor& keys,
                             const Tensor& values, const AttentionPart& part,
                             const AttentionOptions& options, const Tensor& dsinks) {
  const AttentionSizes sizes(qkv, part, keys.shape, options);
  visit_compute_dtype(qkv.dtype, [&]<typename T>(T) {
    enqueue(stream, Backward<T>{dqkv.as<T>(), dout.as<T>(), out.as<T>(), lse.as<float>(),
                                qkv.as<T>(), keys.as<T>(), values.as<T>(), /*dkeys=*/nullptr,
                                /*dvalues=*/nullptr, dkeys.as<float>(), dvalues.as<float>(),
                                dsinks.empty() ? nullptr : dsinks.as<float>(), sizes});
  });
}

}  // namespace trireme::ops::cpu
