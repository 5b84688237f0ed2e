// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/attention/attention_sizes.h"
#include "runtime/ops/attention/attention_tile_cuda.h"

namespace trireme::ops::cuda {
namespace {

constexpr int cached_warps = 4;
constexpr int cached_threads = cached_warps * warp_size;

// One pass; keys(B, capacity, kv_heads * D), values likewise.
template <typename T>
struct Cached {
  T* keys;
  T* values;
  const std::int32_t* spans;
  std::int64_t capacity;

  [[nodiscard]] __device__ HeadRows<T> rows(T* cache, const AttentionSizes& sizes,
                                            std::int64_t sample, std::int64_t key_head) const {
    const std::int64_t stride = sizes.kv_heads * sizes.size;
    return {cache + sample * capacity * stride + key_head * sizes.size, stride};
  }
};

// One block per row of a pass: its keys and values, all heads.
template <typename T>
__global__ void append_kernel(Cached<T> cached, const T* qkv, AttentionSizes sizes) {
  const std::int64_t sample = blockIdx.x / sizes.length, row = blockIdx.x % sizes.length;
  if (row >= cached.spans[2 * sample + 1]) return;
  const std::int64_t position = cached.spans[2 * sample] + row;
  const T* const keys = sizes.key_rows(sizes.keys_in(qkv), sample, 0).row(row);
  const T* const values = sizes.key_rows(sizes.values_in(qkv), sample, 0).row(row);
  T* const to_keys = cached.rows(cached.keys, sizes, sample, 0).row(position);
  T* const to_values = cached.rows(cached.values, sizes, sample, 0).row(position);
  for (std::int64_t i = threadIdx.x; i < sizes.kv_heads * sizes.size; i += blockDim.x) {
    to_keys[i] = keys[i];
    to_values[i] = values[i];
  }
}

// A warp's state over the keys so far: lane l has elements l + 32 e of the sums.
template <int elements>
struct RunningSoftmax {
  float top = -INFINITY, sum = 0.0F;
  float sums[elements] = {};

  __device__ void rescale(float new_top) {
    const float correction = top == -INFINITY ? 0.0F : expf(top - new_top);
    top = new_top;
    sum *= correction;
#pragma unroll
    for (int e = 0; e < elements; ++e)
      sums[e] *= correction;
  }
};

// One block per row and head; its warps process keys in turn, and the first one combines them.
template <int elements, typename T>
__global__ void __launch_bounds__(cached_threads)
    cached_kernel(T* out, Cached<T> cached, const T* qkv, AttentionSizes sizes) {
  __shared__ float tops[cached_warps], totals[cached_warps];
  __shared__ float partial[cached_warps][elements * warp_size];
  const std::int64_t head = blockIdx.x % sizes.heads, index = blockIdx.x / sizes.heads;
  const std::int64_t sample = index / sizes.length, row = index % sizes.length;
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const int size = static_cast<int>(sizes.size);
  T* const result = sizes.result(out, sample, head).row(row);
  const bool real = row < cached.spans[2 * sample + 1];
  const std::int64_t position = cached.spans[2 * sample] + row;
  const std::int64_t key_head = head / sizes.group();
  const HeadRows<T> keys = cached.rows(cached.keys, sizes, sample, key_head);
  const HeadRows<T> values = cached.rows(cached.values, sizes, sample, key_head);
  const T* const query = sizes.queries(qkv, sample, head).row(row);

  float q[elements];
#pragma unroll
  for (int e = 0; e < elements; ++e) {
    const int column = lane + warp_size * e;
    q[e] = column < size ? load(query[column]) : 0.0F;
  }
  RunningSoftmax<elements> softmax;
  const std::int64_t end = real ? position + 1 : 0;
  for (std::int64_t key = sizes.first_key(position) + warp; key < end; key += cached_warps) {
    float product = 0.0F;
#pragma unroll
    for (int e = 0; e < elements; ++e) {
      const int column = lane + warp_size * e;
      if (column < size) product += q[e] * load(keys.row(key)[column]);
    }
    const float score = capped(warp_reduce(product, Sum{}), sizes) * sizes.score_scale;
    if (score > softmax.top) softmax.rescale(score);
    const float weight = expf(score - softmax.top);
    softmax.sum += weight;
#pragma unroll
    for (int e = 0; e < elements; ++e) {
      const int column = lane + warp_size * e;
      if (column < size) softmax.sums[e] += weight * load(values.row(key)[column]);
    }
  }
  if (lane == 0) {
    tops[warp] = softmax.top;
    totals[warp] = softmax.sum;
  }
#pragma unroll
  for (int e = 0; e < elements; ++e)
    partial[warp][lane + warp_size * e] = softmax.sums[e];
  __syncthreads();
  const float sink = sizes.sink(head);
  float top = sink;
#pragma unroll
  for (int w = 0; w < cached_warps; ++w)
    top = fmaxf(top, tops[w]);
  for (int column = static_cast<int>(threadIdx.x); column < size; column += cached_threads) {
    float total = sink == -INFINITY ? 0.0F : expf(sink - top), value = 0.0F;
#pragma unroll
    for (int w = 0; w < cached_warps; ++w) {
      if (totals[w] == 0.0F) continue;  // it had no keys
      const float share = expf(tops[w] - top);
      total += totals[w] * share;
      value += partial[w][column] * share;
    }
    store(result[column], real ? value / total : 0.0F);
  }
}

}  // namespace

void attention_append(Stream& stream, const Tensor& keys, const Tensor& values, const Tensor& qkv,
                      const Tensor& spans, const AttentionOptions& options) {
  if (qkv.count() == 0) return;
  const AttentionSizes sizes(qkv, options);
  visit_compute_dtype(qkv.dtype, [&]<typename T>(T) {
    const Cached<T> cached{keys.as<T>(), values.as<T>(), spans.as<std::int32_t>(), keys.shape[1]};
    launch(stream, {.blocks = sizes.batch * sizes.length, .threads = 256}, append_kernel<T>, cached,
           qkv.as<T>(), sizes);
  });
}

void attention_cached_forward(Stream& stream, const Tensor& out, const Tensor& keys,
                              const Tensor& values, const Tensor& qkv, const Tensor& spans,
                              const AttentionOptions& options) {
  if (qkv.count() == 0) return;
  const AttentionSizes sizes(qkv, options);
  const std::int64_t rows = sizes.batch * sizes.length;
  visit_compute_dtype(qkv.dtype, [&]<typename T>(T) {
    const Cached<T> cached{keys.as<T>(), values.as<T>(), spans.as<std::int32_t>(), keys.shape[1]};
    launch(stream, {.blocks = rows, .threads = 256}, append_kernel<T>, cached, qkv.as<T>(), sizes);
    with_padded_size(sizes.size, [&](auto padded) {
      launch(stream, {.blocks = rows * sizes.heads, .threads = cached_threads},
             cached_kernel<padded / warp_size, T>, out.as<T>(), cached, qkv.as<T>(), sizes);
    });
  });
}

TRIREME_CUDA_PROVIDES(ops, attention_append, attention_cached_forward);

}  // namespace trireme::ops::cuda
