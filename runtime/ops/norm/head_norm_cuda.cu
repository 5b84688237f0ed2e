// SPDX-License-Identifier: Apache-2.0
// One warp per query and key head.
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/columns_cuda.h"
#include "runtime/ops/common/reduce_cuda.h"
#include "runtime/ops/norm/head_norm.h"

namespace trireme::ops::cuda {
namespace {

constexpr int threads = 256;

// x(rows, (heads + 2 kv_heads) * size); the first `normed` heads of a row are normalised.
struct Sizes {
  std::int64_t rows, heads, normed, all, size;

  Sizes(const Tensor& x, const HeadNormOptions& options)
      : rows(x.shape[0] * x.shape[1]),
        heads(options.heads),
        normed(heads + options.kv_heads),
        all(normed + options.kv_heads),
        size(x.shape[2] / all) {}
};

struct Gammas {
  const float* of[2];
  float offset;

  __device__ float at(const Sizes& sizes, std::int64_t head, std::int64_t i) const {
    return (head < sizes.heads ? of[0][i] : of[1][i]) + offset;
  }
};

template <typename T>
__global__ void forward_kernel(T* y, float* rstd, const T* x, Gammas gammas, Sizes sizes,
                               float epsilon) {
  const std::int64_t item =
      (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / warp_size;  // (rows, all)
  if (item >= sizes.rows * sizes.all) return;
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const std::int64_t row = item / sizes.all, head = item % sizes.all;
  const T* const in = x + item * sizes.size;
  T* const out = y + item * sizes.size;
  if (head >= sizes.normed) {
    for (std::int64_t i = lane; i < sizes.size; i += warp_size)
      out[i] = in[i];
    return;
  }
  float squares = 0.0F;
  for (std::int64_t i = lane; i < sizes.size; i += warp_size)
    squares += load(in[i]) * load(in[i]);
  squares = warp_reduce(squares, Sum{});
  const float inverse = 1.0F / sqrtf(squares / static_cast<float>(sizes.size) + epsilon);
  for (std::int64_t i = lane; i < sizes.size; i += warp_size)
    store(out[i], load(in[i]) * inverse * gammas.at(sizes, head, i));
  if (lane == 0) rstd[row * sizes.normed + head] = inverse;
}

// With n = x rstd and g = dy gamma: dx = rstd (g - n mean(g n)).
template <typename T>
__global__ void input_kernel(T* dqkv, const T* x, const float* rstd, Gammas gammas, Sizes sizes) {
  const std::int64_t item =
      (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / warp_size;  // (rows, normed)
  if (item >= sizes.rows * sizes.normed) return;
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const std::int64_t row = item / sizes.normed, head = item % sizes.normed;
  const T* const in = x + (row * sizes.all + head) * sizes.size;
  T* const slope = dqkv + (row * sizes.all + head) * sizes.size;
  const float inverse = rstd[item];
  float sum_gn = 0.0F;
  for (std::int64_t i = lane; i < sizes.size; i += warp_size)
    sum_gn += load(slope[i]) * gammas.at(sizes, head, i) * (load(in[i]) * inverse);
  const float mean_gn = warp_reduce(sum_gn, Sum{}) / static_cast<float>(sizes.size);
  for (std::int64_t i = lane; i < sizes.size; i += warp_size) {
    const float g = load(slope[i]) * gammas.at(sizes, head, i);
    store(slope[i], inverse * (g - load(in[i]) * inverse * mean_gn));
  }
}

// One row's part of the gradients of both scales: dy n of its heads.
template <typename T>
struct GammaTerms {
  const T* dqkv;
  const T* x;
  const float* rstd;
  Sizes sizes;

  __device__ void operator()(std::int64_t row, std::int64_t column, float (&sums)[2][1]) const {
    for (std::int64_t head = 0; head < sizes.normed; ++head) {
      const std::int64_t at = (row * sizes.all + head) * sizes.size + column;
      const float term = load(dqkv[at]) * (load(x[at]) * rstd[row * sizes.normed + head]);
      if (head < sizes.heads) {
        sums[0][0] += term;
      } else {
        sums[1][0] += term;
      }
    }
  }
};

trireme::cuda::Grid warps(std::int64_t items) {
  return {.blocks = trireme::cuda::ceil_div(items, threads / warp_size), .threads = threads};
}

}  // namespace

void head_norm_forward(Stream& stream, const Tensor& y, const Tensor& rstd, const Tensor& x,
                       const Tensor& query_gamma, const Tensor& key_gamma,
                       const HeadNormOptions& options) {
  if (x.count() == 0) return;
  const Sizes sizes(x, options);
  const Gammas gammas{{query_gamma.as<float>(), key_gamma.as<float>()}, options.offset};
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    trireme::cuda::launch(stream, warps(sizes.rows * sizes.all), forward_kernel<T>, y.as<T>(),
                          rstd.as<float>(), x.as<T>(), gammas, sizes, options.epsilon);
  });
}

void head_norm_backward(Stream& stream, const Tensor& dqkv, const Tensor& d_query_gamma,
                        const Tensor& d_key_gamma, const Tensor& x, const Tensor& rstd,
                        const Tensor& query_gamma, const Tensor& key_gamma,
                        const HeadNormOptions& options) {
  if (x.count() == 0) return;
  const Sizes sizes(x, options);
  const Gammas gammas{{query_gamma.as<float>(), key_gamma.as<float>()}, options.offset};
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    add_column_sums<2, 1>(
        stream, ColumnTargets<2>{{d_query_gamma.as<float>(), d_key_gamma.as<float>()}},
        GammaTerms<T>{dqkv.as<T>(), x.as<T>(), rstd.as<float>(), sizes}, sizes.rows, sizes.size);
    trireme::cuda::launch(stream, warps(sizes.rows * sizes.normed), input_kernel<T>, dqkv.as<T>(),
                          x.as<T>(), rstd.as<float>(), gammas, sizes);
  });
}

TRIREME_CUDA_PROVIDES(ops, head_norm_forward);
TRIREME_CUDA_PROVIDES(ops, head_norm_backward);

}  // namespace trireme::ops::cuda
