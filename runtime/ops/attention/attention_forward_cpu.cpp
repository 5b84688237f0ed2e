// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/attention/attention_head_cpu.h"

namespace trireme::ops::cpu {
namespace {

template <typename T>
struct Forward {
  T* out;
  float* lse;
  const T* qkv;
  const T* keys;
  const T* values;
  AttentionSizes sizes;

  void operator()() const {
    const std::int64_t group = sizes.group();
    for (std::int64_t sample = 0; sample < sizes.batch; ++sample) {
      AttentionSizes here = sizes;
      here.choose(sample);
      const HeadForward<T> forward(here);
      for (std::int64_t i = 0; i < sizes.head_count(); ++i) {
        const std::int64_t head = sizes.first_head() + i;
        if (head % group == 0) {
          forward.pack(sizes.key_rows(keys, sample, head / group),
                       sizes.key_rows(values, sample, head / group), sizes.first);
        }
        forward.run(head, sizes.result(out, sample, head), lse + sizes.lse_of(sample, head),
                    sizes.queries(qkv, sample, head), sizes.first);
      }
    }
  }
};

// Rows of one pass and the caches by position.
template <typename T>
struct Append {
  T* keys;
  T* values;
  const T* qkv;
  const std::int32_t* spans;
  std::int64_t capacity;
  AttentionSizes sizes;  // of a pass

  // All key or value heads of a sample's cache.
  [[nodiscard]] HeadRows<T> cached(T* cache, std::int64_t sample) const {
    const std::int64_t width = sizes.kv_heads * sizes.size;
    return {cache + sample * capacity * width, width};
  }

  static void append(const HeadRows<T>& cache, const HeadRows<const T>& packed, std::int64_t first,
                     std::int64_t count) {
    for (std::int64_t row = 0; row < count; ++row)
      std::copy_n(packed.row(row), cache.stride, cache.row(first + row));
  }

  // Of one sample.
  void append(std::int64_t sample) const {
    const std::int64_t first = spans[2 * sample], count = spans[2 * sample + 1];
    append(cached(keys, sample), sizes.key_rows(sizes.keys_in(qkv), sample, 0), first, count);
    append(cached(values, sample), sizes.key_rows(sizes.values_in(qkv), sample, 0), first, count);
  }

  void operator()() const {
    for (std::int64_t b = 0; b < sizes.batch; ++b)
      append(b);
  }
};

template <typename T>
struct CachedForward {
  T* out;
  Append<T> caches;

  void sample(std::int64_t sample, std::int64_t first, std::int64_t count) const {
    const AttentionSizes& sizes = caches.sizes;
    const HeadRows<T> all_keys = caches.cached(caches.keys, sample);
    const HeadRows<T> all_values = caches.cached(caches.values, sample);
    caches.append(sample);
    AttentionSizes text = sizes;
    text.length = first + count;
    const HeadForward<T> forward(text);
    for (std::int64_t head = 0; head < sizes.heads; ++head) {
      const std::int64_t group = sizes.group(), shift = head / group * sizes.size;
      if (head % group == 0) {
        forward.pack({all_keys.data + shift, all_keys.stride},
                     {all_values.data + shift, all_values.stride}, first);
      }
      forward.run(head, sizes.result(out, sample, head).from(first), nullptr,
                  sizes.queries(caches.qkv, sample, head).from(first), first);
    }
  }

  void operator()() const {
    const AttentionSizes& sizes = caches.sizes;
    const std::int64_t width = sizes.heads * sizes.size;
    for (std::int64_t b = 0; b < sizes.batch; ++b) {
      const std::int64_t count = caches.spans[2 * b + 1];
      if (count > 0) sample(b, caches.spans[2 * b], count);
      T* const rows = out + b * sizes.length * width;
      std::fill(rows + count * width, rows + sizes.length * width, T{});
    }
  }
};

}  // namespace

void attention_forward(Stream& stream, const Tensor& out, const Tensor& lse, const Tensor& qkv,
                       const AttentionOptions& options) {
  if (qkv.count() == 0) return;
  const AttentionSizes sizes(qkv, options);
  visit_compute_dtype(qkv.dtype, [&]<typename T>(T) {
    const T* const from = qkv.as<T>();
    enqueue(stream, Forward<T>{out.as<T>(), lse.as<float>(), from, sizes.keys_in(from),
                               sizes.values_in(from), sizes});
  });
}

void attention_part_forward(Stream& stream, const Tensor& out, const Tensor& lse, const Tensor& qkv,
                            const Tensor& keys, const Tensor& values, const AttentionPart& part,
                            const AttentionOptions& options) {
  const AttentionSizes sizes(qkv, part, keys.shape, options);
  visit_compute_dtype(qkv.dtype, [&]<typename T>(T) {
    enqueue(stream, Forward<T>{out.as<T>(), lse.as<float>(), qkv.as<T>(), keys.as<T>(),
                               values.as<T>(), sizes});
  });
}

namespace {

template <typename T>
Append<T> append_of(const Tensor& keys, const Tensor& values, const Tensor& qkv,
                    const Tensor& spans, const AttentionOptions& options) {
  return {keys.as<T>(),  values.as<T>(), qkv.as<T>(), spans.as<std::int32_t>(),
          keys.shape[1], {qkv, options}};
}

}  // namespace

void attention_append(Stream& stream, const Tensor& keys, const Tensor& values, const Tensor& qkv,
                      const Tensor& spans, const AttentionOptions& options) {
  if (qkv.count() == 0) return;
  visit_compute_dtype(qkv.dtype, [&](auto type) {
    enqueue(stream, append_of<decltype(type)>(keys, values, qkv, spans, options));
  });
}

void attention_cached_forward(Stream& stream, const Tensor& out, const Tensor& keys,
                              const Tensor& values, const Tensor& qkv, const Tensor& spans,
                              const AttentionOptions& options) {
  if (qkv.count() == 0) return;
  visit_compute_dtype(qkv.dtype, [&]<typename T>(T) {
    enqueue(stream, CachedForward<T>{out.as<T>(), append_of<T>(keys, values, qkv, spans, options)});
  });
}

}  // namespace trireme::ops::cpu
