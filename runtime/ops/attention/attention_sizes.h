// SPDX-License-Identifier: Apache-2.0
// Private: the sizes of packed attention, where its heads lie, and which keys a query sees; shared
// by every back end.
#pragma once

#include <algorithm>
#include <cmath>

#include "runtime/base/host_device.h"
#include "runtime/ops/attention/attention.h"

namespace trireme::ops {

// One head inside a packed tensor: position t's elements begin at data + t * stride.
template <typename T>
struct HeadRows {
  T* data;
  std::int64_t stride;

  [[nodiscard]] TRIREME_HOST_DEVICE T* row(std::int64_t position) const {
    return data + position * stride;
  }
};

struct AttentionSizes {
  std::int64_t batch;
  std::int64_t length;
  std::int64_t heads;
  std::int64_t key_heads;
  std::int64_t size;  // of a head
  std::int64_t window;
  bool causal;
  float soft_cap;     // 0: none
  float scale;        // of the products: 1 / sqrt(size)
  float score_scale;  // of what the softmax takes: `scale`, or 1 behind a soft cap

  AttentionSizes(const Tensor& qkv, const AttentionOptions& options)
      : batch(qkv.shape[0]),
        length(qkv.shape[1]),
        heads(options.heads),
        key_heads(options.key_heads),
        size(qkv.shape[2] / (heads + 2 * key_heads)),
        window(options.window),
        causal(options.causal),
        soft_cap(static_cast<float>(options.soft_cap)),
        scale(static_cast<float>(1.0 / std::sqrt(static_cast<double>(size)))),
        score_scale(soft_cap > 0 ? 1.0F : scale) {}

  // Heads of queries that share one of keys.
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t group() const { return heads / key_heads; }

  // Of qkv(B, T, (heads + 2 key_heads) * D).
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
    return packed(qkv, sample, heads + key_heads + key_head);
  }
  // Of out(B, T, heads * D).
  template <typename T>
  [[nodiscard]] TRIREME_HOST_DEVICE HeadRows<T> result(T* out, std::int64_t sample,
                                                       std::int64_t head) const {
    const std::int64_t stride = heads * size;
    return {out + sample * length * stride + head * size, stride};
  }

  // Keys [first_key(query), end_of_keys(query)) are seen.
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t first_key(std::int64_t query) const {
    return window > 0 && query >= window ? query + 1 - window : 0;
  }
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t end_of_keys(std::int64_t query) const {
    return causal && query < length ? query + 1 : length;
  }
  // Queries [first_query(key), end_of_queries(key)) see it.
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t first_query(std::int64_t key) const {
    return causal ? key : 0;
  }
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t end_of_queries(std::int64_t key) const {
    return window > 0 && key + window < length ? key + window : length;
  }

 private:
  template <typename T>
  [[nodiscard]] TRIREME_HOST_DEVICE HeadRows<T> packed(T* qkv, std::int64_t sample,
                                                       std::int64_t place) const {
    const std::int64_t stride = (heads + 2 * key_heads) * size;
    return {qkv + sample * length * stride + place * size, stride};
  }
};

}  // namespace trireme::ops
