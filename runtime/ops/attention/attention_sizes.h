// SPDX-License-Identifier: Apache-2.0
// Private: the sizes of packed attention, where its heads lie, and which keys a query sees; shared
// by every back end.
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
  // The same rows, of which the first counts as `position`.
  [[nodiscard]] TRIREME_HOST_DEVICE HeadRows from(std::int64_t position) const {
    return {data, stride, position};
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
  float score_scale;           // of what the softmax takes: `scale`, or 1 behind a soft cap
  const std::int32_t* starts;  // of documents: of all samples, then of the one chosen; may be null

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
                                               : options.document_starts.as<std::int32_t>()) {}

  // From here on keys and queries are those of this sample; once.
  TRIREME_HOST_DEVICE void choose(std::int64_t sample) {
    if (starts != nullptr) starts += sample * length;
  }

  // Heads of queries that share one of keys.
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t group() const { return heads / kv_heads; }

  // Of qkv(B, T, (heads + 2 kv_heads) * D).
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
  // Of out(B, T, heads * D).
  template <typename T>
  [[nodiscard]] TRIREME_HOST_DEVICE HeadRows<T> result(T* out, std::int64_t sample,
                                                       std::int64_t head) const {
    const std::int64_t stride = heads * size;
    return {out + sample * length * stride + head * size, stride};
  }

  // Keys [first_key(query), end_of_keys(query)) are seen. Neither falls from query to query; of a
  // query behind the last it is that of the last.
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t first_key(std::int64_t query) const {
    const std::int64_t in_window = window > 0 && query >= window ? query + 1 - window : 0;
    if (starts == nullptr) return in_window;
    const std::int64_t start = starts[query < length ? query : length - 1];
    return start > in_window ? start : in_window;
  }
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t end_of_keys(std::int64_t query) const {
    return causal && query < length ? query + 1 : length;
  }
  // Queries [first_query(key), end_of_queries(key)) see it.
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t first_query(std::int64_t key) const {
    return causal ? key : 0;
  }
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t end_of_queries(std::int64_t key) const {
    const std::int64_t end = window > 0 && key + window < length ? key + window : length;
    return starts == nullptr ? end : end_of_document(key, end);
  }

 private:
  // The first of the queries in (key, end) whose document begins behind the key, else `end`.
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
