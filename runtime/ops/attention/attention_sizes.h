// SPDX-License-Identifier: Apache-2.0
// Private: sizes of packed attention, head offsets, and the keys that a query attends to; shared by
// all back ends.
#pragma once

#include <algorithm>
#include <cmath>

#include "runtime/base/host_device.h"
#include "runtime/ops/attention/attention.h"

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
  std::int64_t length;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t size;  // of a head
  std::int64_t window;
  bool causal;
  float soft_cap;              // 0: none
  float scale;                 // of the products
  float score_scale;           // of the softmax's input: `scale`, or 1 after a soft cap
  const std::int32_t* starts;  // of documents: of all samples, then of the chosen one; may be null
  const float* sinks;          // (heads), may be null

  AttentionSizes(const Tensor& qkv, const AttentionOptions& options)
      : batch(qkv.shape[0]),
        length(qkv.shape[1]),
        heads(options.heads),
        kv_heads(options.kv_heads),
        size(qkv.shape[2] / (heads + 2 * kv_heads)),
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
    if (starts != nullptr) starts += sample * length;
  }

  // Query heads per key head.
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t group() const { return heads / kv_heads; }

  // For qkv(B, T, (heads + 2 kv_heads) * D).
  template <typename T>
  [[nodiscard]] TRIREME_HOST_DEVICE HeadRows<T> queries(T* qkv, std::int64_t sample,
                                                        std::int64_t head) const {
    return packed(qkv, sample, head);
  }
  template <typename T>
  [[nodiscard]] TRIREME_HOST_DEVICE HeadRows<T> keys(T* qkv, std::int64_t sample,
                                                     std::int64_t key_head) const {
    return packed(qkv, sample, heads + key_head);
  }
  template <typename T>
  [[nodiscard]] TRIREME_HOST_DEVICE HeadRows<T> values(T* qkv, std::int64_t sample,
                                                       std::int64_t key_head) const {
    return packed(qkv, sample, heads + kv_heads + key_head);
  }
  // For out(B, T, heads * D).
  template <typename T>
  [[nodiscard]] TRIREME_HOST_DEVICE HeadRows<T> result(T* out, std::int64_t sample,
                                                       std::int64_t head) const {
    const std::int64_t stride = heads * size;
    return {out + sample * length * stride + head * size, stride};
  }

  // Index into lse of a row of (B * T).
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t lse_at(std::int64_t row, std::int64_t head,
                                                        bool by_position = false) const {
    if (by_position) return row * heads + head;
    return (row / length * heads + head) * length + row % length;
  }

  // A query attends to keys [first_key(query), end_of_keys(query)). Both are non-decreasing;
  // queries past the last have the last one's.
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t first_key(std::int64_t query) const {
    const std::int64_t in_window = window > 0 && query >= window ? query + 1 - window : 0;
    if (starts == nullptr) return in_window;
    const std::int64_t start = starts[query < length ? query : length - 1];
    return start > in_window ? start : in_window;
  }
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t end_of_keys(std::int64_t query) const {
    return causal && query < length ? query + 1 : length;
  }
  // Queries [first_query(key), end_of_queries(key)) attend to the key.
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t first_query(std::int64_t key) const {
    return causal ? key : 0;
  }
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t end_of_queries(std::int64_t key) const {
    const std::int64_t end = window > 0 && key + window < length ? key + window : length;
    return starts == nullptr ? end : end_of_document(key, end);
  }

 private:
  // The first query in (key, end) whose document begins after the key, else `end`.
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t end_of_document(std::int64_t key,
                                                                 std::int64_t end) const {
    std::int64_t low = key + 1;
    while (low < end) {
      const std::int64_t middle = low + (end - low) / 2;
      if (starts[middle] > key) {
        end = middle;
      } else {
        low = middle + 1;
      }
    }
    return end;
  }

  template <typename T>
  [[nodiscard]] TRIREME_HOST_DEVICE HeadRows<T> packed(T* qkv, std::int64_t sample,
                                                       std::int64_t place) const {
    const std::int64_t stride = (heads + 2 * kv_heads) * size;
    return {qkv + sample * length * stride + place * size, stride};
  }
};

}  // namespace trireme::ops
