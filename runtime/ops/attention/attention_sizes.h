// SPDX-License-Identifier: Apache-2.0
// Private: sizes of packed attention, head offsets, and the keys that a query attends to; shared by
// all back ends.
#pragma once

#include <algorithm>
#include <cmath>

#include "runtime/base/host_device.h"
#include "runtime/ops/attention/attention_part.h"

namespace trireme::ops {

// One head inside a packed tensor: elements of position t begin at data + (t - first) * stride.
template <typename T>
struct HeadRows {
  T* data;
  std::int64_t stride;
  std::int64_t first = 0;

  [[nodiscard]] TRIREME_HOST_DEVICE T* row(std::int64_t position) const {
    return data + (position - first) * stride;
  }
  // The same rows, with the first one at `position`.
  [[nodiscard]] TRIREME_HOST_DEVICE HeadRows from(std::int64_t position) const {
    return {data, stride, position};
  }
};

// Where cuDNN finds the sequences of a ragged batch: their lengths, and each one's offset in
// elements of the projection, of out and of lse (positions, heads). Offsets are one more.
struct DocumentPlaces {
  std::int32_t* lengths;
  std::int64_t *projection, *out, *lse;

  // The end of the last sequence has the place behind it.
  TRIREME_HOST_DEVICE void fill(std::int64_t at, std::int64_t count, const std::int32_t* bounds,
                                std::int64_t heads, std::int64_t kv_heads,
                                std::int64_t size) const {
    const std::int64_t first = bounds[at];
    if (at < count) lengths[at] = static_cast<std::int32_t>(bounds[at + 1] - first);
    projection[at] = first * (heads + 2 * kv_heads) * size;
    out[at] = first * heads * size;
    lse[at] = first * heads;
  }
};

struct AttentionSizes {
  std::int64_t batch;
  std::int64_t rows;    // of a sample in qkv, out and lse
  std::int64_t row;     // of these, the one of the first query
  std::int64_t first;   // position of the first query
  std::int64_t length;  // queries [first, length) attend to keys [0, length)
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t size;                 // of a head
  std::int64_t key_head, key_heads;  // of kv_heads, those that take part: the first, their number
  std::int64_t key_stride, key_samples;  // distances between positions and samples of keys
  std::int64_t window;
  bool causal;
  float soft_cap;     // 0: none
  float scale;        // of the products
  float score_scale;  // of the softmax's input: `scale`, or 1 after a soft cap
  // Of documents: of all samples, then from the first query of the chosen one on; may be null.
  const std::int32_t* starts;
  const float* sinks;  // (heads), may be null

  AttentionSizes(const Tensor& qkv, const AttentionOptions& options)
      : AttentionSizes(qkv, {.rows = qkv.shape[1]}, qkv.shape, options) {
    key_heads = kv_heads;
  }

  // keys: the shape of the tensor that holds them, (B, T, n * D).
  AttentionSizes(const Tensor& qkv, const AttentionPart& part, const Shape& keys,
                 const AttentionOptions& options)
      : batch(qkv.shape[0]),
        rows(qkv.shape[1]),
        row(part.row),
        first(part.position),
        length(part.position + part.rows),
        heads(options.heads),
        kv_heads(options.kv_heads),
        size(qkv.shape[2] / (heads + 2 * kv_heads)),
        key_head(part.key_head),
        key_heads(keys[2] / size),
        key_stride(keys[2]),
        key_samples(keys[1] * keys[2]),
        window(options.window),
        causal(options.causal),
        soft_cap(static_cast<float>(options.soft_cap)),
        scale(static_cast<float>(options.scale > 0 ? options.scale
                                                   : 1.0 / std::sqrt(static_cast<double>(size)))),
        score_scale(soft_cap > 0 ? 1.0F : scale),
        starts(options.document_starts.empty() ? nullptr
                                               : options.document_starts.as<std::int32_t>()),
        sinks(options.sinks.empty() ? nullptr : options.sinks.as<float>()) {}

  // The head's sink in the softmax's input; minus infinity: none.
  [[nodiscard]] TRIREME_HOST_DEVICE float sink(std::int64_t head) const {
    return sinks == nullptr ? -INFINITY : sinks[head];
  }

  // Selects this sample for later calls; call it once.
  TRIREME_HOST_DEVICE void choose(std::int64_t sample) {
    if (starts != nullptr) starts += sample * rows + row;
  }

  // Query heads per key head.
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t group() const { return heads / kv_heads; }

  // Query heads [first_head(), first_head() + head_count()) take part.
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t first_head() const { return key_head * group(); }
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t head_count() const { return key_heads * group(); }
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t queries() const { return length - first; }

  // For qkv(B, R, (heads + 2 kv_heads) * D), by position.
  template <typename T>
  [[nodiscard]] TRIREME_HOST_DEVICE HeadRows<T> queries(T* qkv, std::int64_t sample,
                                                        std::int64_t head) const {
    return rows_of(qkv, heads + 2 * kv_heads, sample, head);
  }
  // For out(B, R, heads * D), by position.
  template <typename T>
  [[nodiscard]] TRIREME_HOST_DEVICE HeadRows<T> result(T* out, std::int64_t sample,
                                                       std::int64_t head) const {
    return rows_of(out, heads, sample, head);
  }
  // The first keys and values inside qkv.
  template <typename T>
  [[nodiscard]] TRIREME_HOST_DEVICE T* keys_in(T* qkv) const {
    return qkv + heads * size;
  }
  template <typename T>
  [[nodiscard]] TRIREME_HOST_DEVICE T* values_in(T* qkv) const {
    return qkv + (heads + kv_heads) * size;
  }
  // For keys or values, by position; `keys`: those of the first head that takes part.
  template <typename T>
  [[nodiscard]] TRIREME_HOST_DEVICE HeadRows<T> key_rows(T* keys, std::int64_t sample,
                                                         std::int64_t head) const {
    return {keys + sample * key_samples + (head - key_head) * size, key_stride};
  }

  // The first key that a window lets any query attend to, and the number of these keys.
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t first_reached() const {
    return first_of_window(first);
  }
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t reached() const {
    return length - first_reached();
  }

  // Index into lse(B, heads, R) of a head's first query.
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t lse_of(std::int64_t sample,
                                                        std::int64_t head) const {
    return (sample * heads + head) * rows + row;
  }
  // Index into lse of a query of (B * queries()).
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t lse_at(std::int64_t query, std::int64_t head,
                                                        bool by_position = false) const {
    if (by_position) return query * heads + head;
    return lse_of(query / queries(), head) + query % queries();
  }

  // A query attends to keys [first_key(query), end_of_keys(query)). Both are non-decreasing;
  // queries past the last have the last one's.
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t first_key(std::int64_t query) const {
    const std::int64_t in_window = first_of_window(query);
    if (starts == nullptr) return in_window;
    const std::int64_t start = starts[(query < length ? query : length - 1) - first];
    return start > in_window ? start : in_window;
  }
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t end_of_keys(std::int64_t query) const {
    if (query >= length) return length;
    if (causal) return query + 1;
    return starts == nullptr ? length : end_of_document(query, length);
  }
  // Queries [first_query(key), end_of_queries(key)) attend to the key, possibly none.
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t first_query(std::int64_t key) const {
    if (!causal && starts != nullptr) return starts[key];  // all queries are here: first is 0
    return causal && key > first ? key : first;
  }
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t end_of_queries(std::int64_t key) const {
    const std::int64_t end = window > 0 && key + window < length ? key + window : length;
    return starts == nullptr ? end : end_of_document(key, end);
  }

 private:
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t first_of_window(std::int64_t query) const {
    return window > 0 && query >= window ? query + 1 - window : 0;
  }

  // The first query in (key, end) whose document begins after the key, else `end`.
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t end_of_document(std::int64_t key,
                                                                 std::int64_t end) const {
    std::int64_t low = key < first ? first : key + 1;
    while (low < end) {
      const std::int64_t middle = low + (end - low) / 2;
      if (starts[middle - first] > key) {
        end = middle;
      } else {
        low = middle + 1;
      }
    }
    return end;
  }

  // The queries' rows of a tensor of `places` heads a row.
  template <typename T>
  [[nodiscard]] TRIREME_HOST_DEVICE HeadRows<T> rows_of(T* data, std::int64_t places,
                                                        std::int64_t sample,
                                                        std::int64_t place) const {
    const std::int64_t stride = places * size;
    return {data + (sample * rows + row) * stride + place * size, stride, first};
  }
};

}  // namespace trireme::ops
