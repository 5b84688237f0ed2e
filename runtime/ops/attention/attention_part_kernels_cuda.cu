// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/attention/attention_kernels_cuda.h"
#include "runtime/ops/common/rows_cuda.h"

namespace trireme::ops::cuda {
namespace {

constexpr int part_threads = 256;

__global__ void copy_part_lse_kernel(float* dense, float* lse, AttentionSizes sizes,
                                     bool to_dense) {
  const std::int64_t at = std::int64_t{blockIdx.x} * part_threads + threadIdx.x;
  const std::int64_t queries = sizes.queries(), head = at / queries;  // (B, heads, queries)
  if (head >= sizes.batch * sizes.head_count()) return;
  float& kept =
      lse[sizes.lse_of(head / sizes.head_count(), sizes.first_head() + head % sizes.head_count()) +
          at % queries];
  if (to_dense) {
    dense[at] = kept;
  } else {
    kept = dense[at];
  }
}

// Keys, then values: (2, B, keys reached, n * D).
template <typename T>
__global__ void add_part_keys_kernel(float* dkeys, float* dvalues, const T* dk, const T* dv,
                                     AttentionSizes sizes) {
  const std::int64_t sample = sizes.reached() * sizes.key_stride, count = sizes.batch * sample;
  const std::int64_t item = std::int64_t{blockIdx.x} * part_threads + threadIdx.x;
  if (item >= 2 * count) return;
  const std::int64_t at = item % count;
  float* const sums = (item < count ? dkeys : dvalues) + sizes.first_reached() * sizes.key_stride;
  sums[at / sample * sizes.key_samples + at % sample] += load((item < count ? dk : dv)[at]);
}

Grid part_grid(std::int64_t count) {
  return {.blocks = ceil_div(count, part_threads), .threads = part_threads};
}

}  // namespace

void copy_part_lse(Stream& stream, float* dense, const Tensor& lse, const AttentionSizes& sizes,
                   bool to_dense) {
  launch(stream, part_grid(sizes.batch * sizes.head_count() * sizes.queries()),
         copy_part_lse_kernel, dense, lse.as<float>(), sizes, to_dense);
}

void add_part_keys(Stream& stream, const Tensor& dkeys, const Tensor& dvalues, const void* dk,
                   const void* dv, DType dtype, const AttentionSizes& sizes) {
  visit_compute_dtype(dtype, [&]<typename T>(T) {
    launch(stream, part_grid(2 * sizes.batch * sizes.reached() * sizes.key_stride),
           add_part_keys_kernel<T>, dkeys.as<float>(), dvalues.as<float>(),
           static_cast<const T*>(dk), static_cast<const T*>(dv), sizes);
  });
}

}  // namespace trireme::ops::cuda
