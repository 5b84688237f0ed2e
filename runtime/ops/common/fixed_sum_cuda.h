// SPDX-License-Identifier: Apache-2.0
// Private to the CUDA kernels: fixed_sum (fixed_sum.h) on the GPU, with the same bits. 16 lanes of
// a warp are the 16 partial sums of a chunk; a warp of the last block adds the chunks in order.
#pragma once

#include "runtime/ops/common/arrivals_cuda.h"
#include "runtime/ops/common/fixed_sum.h"
#include "runtime/ops/common/reduce_cuda.h"

namespace trireme::ops::cuda {

inline constexpr int fixed_sum_threads = 256;
inline constexpr int chunks_per_block = fixed_sum_threads / static_cast<int>(sum_lanes);

// Sums the elements of one chunk, `stride` apart, with 16 lanes of a warp. All lanes must call;
// `end` is 0 for lanes without a chunk.
template <bool squares>
__device__ double sum_of_chunk(const float* x, std::int64_t begin, std::int64_t end,
                               std::int64_t stride = 1) {
  constexpr int lanes = static_cast<int>(sum_lanes);
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  double partial = 0.0;
#pragma unroll 16
  for (std::int64_t i = begin + lane; i < end; i += lanes) {
    const auto value = static_cast<double>(x[i * stride]);
    partial += squares ? value * value : value;
  }
  for (int half = lanes / 2; half > 0; half /= 2)
    partial += __shfl_xor_sync(whole_warp, partial, half);
  return partial;
}

// Every lane of the warp gets the sequential sum of `sums`.
inline __device__ double sum_in_order(const double* sums, std::int64_t chunks) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  double sum = 0.0;
  double next = lane < chunks ? sums[lane] : 0.0;
  for (std::int64_t first = 0; first < chunks; first += warp_size) {
    const double mine = next;
    const std::int64_t ahead = first + warp_size + lane;
    next = ahead < chunks ? sums[ahead] : 0.0;
#pragma unroll
    for (int i = 0; i < warp_size; ++i)
      sum += __shfl_sync(whole_warp, mine, i);
  }
  return sum;
}

// total(1) += the chunk sums, sequentially; sums(chunks) is scratch for them.
template <bool squares>
__global__ void fixed_sum_kernel(double* total, double* sums, unsigned* arrivals,
                                 std::int64_t chunks, const float* x, std::int64_t count) {
  constexpr int lanes = static_cast<int>(sum_lanes);
  const bool first_lane = threadIdx.x % lanes == 0;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * chunks_per_block;
  const int own = static_cast<int>(threadIdx.x) / lanes;
  for (std::int64_t base = static_cast<std::int64_t>(blockIdx.x) * chunks_per_block; base < chunks;
       base += stride) {
    const std::int64_t chunk = base + own;
    const std::int64_t end = chunk < chunks ? std::min((chunk + 1) * sum_chunk, count) : 0;
    const double sum = sum_of_chunk<squares>(x, chunk * sum_chunk, end);
    if (first_lane && chunk < chunks) sums[chunk] = sum;
  }
  if (!last_to_arrive(arrivals, gridDim.x) || threadIdx.x >= warp_size) return;
  const double sum = sum_in_order(sums, chunks);
  if (threadIdx.x == 0) *total += sum;
}

template <bool squares>
void add_fixed_sum(Stream& stream, const Tensor& total, const Tensor& x) {
  const std::int64_t chunks = ceil_div(x.count(), sum_chunk);
  auto* const sums = reinterpret_cast<double*>(
      CudaStream::of(stream).scratch(static_cast<std::size_t>(chunks) * sizeof(double)));
  launch(stream, grid_for(stream, chunks, chunks_per_block, fixed_sum_threads),
         fixed_sum_kernel<squares>, total.as<double>(), sums, CudaStream::of(stream).arrivals(1),
         chunks, x.as<float>(), x.count());
}

}  // namespace trireme::ops::cuda
