// SPDX-License-Identifier: Apache-2.0
// Private to the CUDA kernels: reductions over a warp and a block in a fixed order, so equal
// operands give equal bits in every run. No atomics.
#pragma once

#include "runtime/ops/common/launch_cuda.h"

namespace trireme::ops::cuda {

inline constexpr int warp_size = 32;
inline constexpr unsigned whole_warp = 0xffffffffU;

struct Sum {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Max {
  // NaN wins, so it stays visible.
  template <typename T>
  __device__ T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (isnan(a)) return a;
    }
    return a > b ? a : b;
  }
};

// Every lane gets the reduction over its warp; all lanes must call.
template <typename T, typename Op>
__device__ T warp_reduce(T value, Op op) {
  for (int lanes = warp_size / 2; lanes > 0; lanes /= 2)
    value = op(value, __shfl_xor_sync(whole_warp, value, lanes));
  return value;
}

// Every thread gets the reduction over its block of `threads` (a multiple of 32); all must call.
// `identity` is the empty reduction. Ends with a barrier, so calls may follow each other.
template <int threads, typename T, typename Op>
__device__ T block_reduce(T value, T identity, Op op) {
  static_assert(threads % warp_size == 0 && threads <= warp_size * warp_size);
  constexpr int warps = threads / warp_size;
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  value = warp_reduce(value, op);
  if constexpr (warps == 1) return value;
  __shared__ T partial[warps];
  if (lane == 0) partial[threadIdx.x / warp_size] = value;
  __syncthreads();
  value = warp_reduce(lane < warps ? partial[lane] : identity, op);
  __syncthreads();
  return value;
}

}  // namespace trireme::ops::cuda
