// SPDX-License-Identifier: Apache-2.0
// With P = softmax(scale Q K^T), O = P V and delta = rowsum(dO * O):
//   dV = P^T dO;  dS = P * (dO V^T - delta);  dQ = scale dS K;  dK = scale dS^T Q.
// Blocks of keys are the outer loop, so dK and dV are complete after one pass over the queries; dQ
// grows over the blocks of keys in a fixed order.
#include <cmath>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/attention/attention.h"
#include "runtime/ops/attention/attention_block_cpu.h"
#include "runtime/ops/attention/attention_pack_cpu.h"
#include "runtime/ops/common/scratch.h"
#include "runtime/ops/common/vector_math_cpu.h"

namespace trireme::ops::cpu {
namespace {

// Scores become probabilities, and `slopes` (dO V^T) become dS; both zero where a query does not
// see a key, up to the end of the block of keys.
void differentiate_row(float* scores, float* slopes, std::int64_t visible, std::int64_t computed,
                       float factor, float log2_sum, float delta) {
  const std::int64_t seen = std::max<std::int64_t>(visible, 0);
  const std::int64_t end = std::min(computed, round_up(seen, lanes));
  for (std::int64_t i = 0; i < end; i += lanes) {
    const Vector p = exp2_vector(load_vector(scores + i) * factor - log2_sum);
    store_vector(scores + i, p);
    store_vector(slopes + i, p * (load_vector(slopes + i) - delta));
  }
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
  float* key_gradient;    // (key_block, stride)
  float* value_gradient;  // (key_block, stride)
  float* scores;          // (query_block, score_stride)
  float* score_slopes;    // (query_block, score_stride)
  std::int64_t stride;

  Workspace(std::int64_t length, std::int64_t size) : stride(Panels::padded(size)) {
    const std::int64_t rows = round_up(length, query_block);
    const std::int64_t sizes[] = {rows * size,
                                  rows * size,
                                  rows * stride,
                                  rows * stride,
                                  rows * stride,
                                  rows,
                                  rows,
                                  size * key_block,
                                  size * key_block,
                                  key_block * stride,
                                  key_block * stride,
                                  key_block * stride,
                                  query_block * score_stride,
                                  query_block * score_stride};
    std::int64_t total = 0;
    for (const std::int64_t count : sizes)
      total += round_up(count, 16);
    static thread_local ScratchBlock scratch;
    float* next = scratch.floats(static_cast<std::size_t>(total));
    std::size_t index = 0;
    const auto take = [&] { return std::exchange(next, next + round_up(sizes[index++], 16)); };
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
  }
};

template <typename T>
struct Backward {
  T* dqkv;
  const T* dout;
  const T* out;
  const float* lse;
  const T* qkv;
  std::int64_t batch;
  std::int64_t length;
  std::int64_t heads;
  std::int64_t size;

  [[nodiscard]] float scale() const {
    return static_cast<float>(1.0 / std::sqrt(static_cast<double>(size)));
  }

  // Everything that belongs to queries, once a head.
  void pack_queries(const Workspace& w, const HeadRows<const T>& queries,
                    const HeadRows<const T>& slopes, const HeadRows<const T>& outputs,
                    const float* head_lse) const {
    const std::int64_t rows = w.query_panels.rows;
    pack_left(w.queries, queries, 0, length, rows, size);
    pack_left(w.slopes, slopes, 0, length, rows, size);
    pack_panels(w.query_panels, queries, 0, length, size);
    pack_panels(w.slope_panels, slopes, 0, length, size);
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
  // see them.
  void add_key_gradient(const Block& block, const float* left, const Panels& right, float* gradient,
                        std::int64_t stride) const {
    for (std::int64_t p = 0; p < stride; p += tile_columns) {
      for (std::int64_t k = 0; k < block.keys; k += tile_rows) {
        const std::int64_t first = std::max<std::int64_t>(0, block.key + k - block.query);
        if (first >= block.queries) continue;
        panel_tile<false>(right.width(p), true, block.queries - first,
                          {left + first * score_stride + k, 1, score_stride},
                          right.at(block.query + first, p), gradient + k * stride + p, stride);
      }
    }
  }

  void step(const Workspace& w, const Block& block) const {
    const std::int64_t at = block.query * size;
    block_scores(block, size, w.queries + at, w.keys, w.scores);
    block_scores(block, size, w.slopes + at, w.values, w.score_slopes);
    const float factor = scale() * log2_e;
    const std::int64_t strips = block.strips();
    for (std::int64_t row = 0; row < strips * tile_rows; ++row) {
      const std::int64_t computed =
          round_up(std::max<std::int64_t>(block.strip_visible(row / tile_rows), 0), tile_columns);
      differentiate_row(w.scores + row * score_stride, w.score_slopes + row * score_stride,
                        block.visible(row), computed, factor, w.log2_sum[block.query + row],
                        w.delta[block.query + row]);
    }
    add_key_gradient(block, w.scores, w.slope_panels, w.value_gradient, w.stride);
    add_key_gradient(block, w.score_slopes, w.query_panels, w.key_gradient, w.stride);
    for (std::int64_t p = 0; p < w.stride; p += tile_columns) {
      for (std::int64_t s = 0; s < strips; ++s) {
        const std::int64_t count = block.strip_visible(s);
        if (count <= 0) continue;
        const std::int64_t row = s * tile_rows;
        panel_tile<true>(w.key_panels.width(p), block.key != 0, count,
                         {w.score_slopes + row * score_stride, score_stride, 1},
                         w.key_panels.at(0, p),
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
      for (std::int64_t i = 0; i < size; ++i)
        store(out_row[i], in[i] * factor);
    }
  }

  // The head's rows in a tensor whose rows hold `parts` times all heads; heads are counted through
  // all samples.
  template <typename Element>
  [[nodiscard]] HeadRows<Element> rows_of(Element* data, std::int64_t index, std::int64_t parts,
                                          std::int64_t which) const {
    const std::int64_t stride = parts * heads * size;
    const std::int64_t sample = index / heads;
    const std::int64_t head = index % heads;
    return {data + sample * length * stride + (which * heads + head) * size, stride};
  }

  void head(const Workspace& w, std::int64_t index) const {
    const HeadRows<const T> keys = rows_of(qkv, index, 3, 1);
    const HeadRows<const T> values = rows_of(qkv, index, 3, 2);
    pack_queries(w, rows_of(qkv, index, 3, 0), rows_of(dout, index, 1, 0),
                 rows_of(out, index, 1, 0), lse + index * length);
    for (std::int64_t key = 0; key < length; key += key_block) {
      const std::int64_t count = std::min(key_block, length - key);
      pack_transposed(w.keys, keys, key, count);
      pack_transposed(w.values, values, key, count);
      pack_panels(w.key_panels, keys, key, count, size);
      std::fill_n(w.key_gradient, key_block * w.stride, 0.0F);
      std::fill_n(w.value_gradient, key_block * w.stride, 0.0F);
      for (std::int64_t query = key / query_block * query_block; query < length;
           query += query_block) {
        step(w, {query, std::min(query_block, length - query), key, count});
      }
      write(rows_of(dqkv, index, 3, 1), key, w.key_gradient, w.stride, count, scale());
      write(rows_of(dqkv, index, 3, 2), key, w.value_gradient, w.stride, count, 1.0F);
    }
    write(rows_of(dqkv, index, 3, 0), 0, w.query_gradient, w.stride, length, scale());
  }

  void operator()() const {
    const Workspace w(length, size);
    for (std::int64_t index = 0; index < batch * heads; ++index)
      head(w, index);
  }
};

}  // namespace

void attention_backward(Stream& stream, const Tensor& dqkv, const Tensor& dout, const Tensor& out,
                        const Tensor& lse, const Tensor& qkv, std::int64_t heads) {
  if (qkv.count() == 0) return;
  visit_compute_dtype(qkv.dtype, [&](auto type) {
    using T = decltype(type);
    enqueue(stream,
            Backward<T>{dqkv.as<T>(), dout.as<T>(), out.as<T>(), lse.as<float>(), qkv.as<T>(),
                        qkv.shape[0], qkv.shape[1], heads, qkv.shape[2] / (3 * heads)});
  });
}

}  // namespace trireme::ops::cpu
