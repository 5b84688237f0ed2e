// SPDX-License-Identifier: Apache-2.0
// Private: what ops that are written once for all back ends (X_maps.h) are made of, on a GPU; see
// maps_cpu.h.
#pragma once

#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/reduce_cuda.h"
#include "runtime/ops/common/transform_cuda.h"

#define TRIREME_BACK_END cuda
#define TRIREME_DEVICE __device__
#define TRIREME_PROVIDES(...) TRIREME_CUDA_PROVIDES(ops, __VA_ARGS__)

namespace trireme::ops::cuda {

template <auto function, typename... Arguments>
__global__ void each_kernel(std::int64_t count, Arguments... arguments) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride)
    function(i, arguments...);
}

// function(i, arguments...) for each i below `count`.
template <auto function, typename... Arguments>
void each(Stream& stream, std::int64_t count, const Arguments&... arguments) {
  constexpr int threads = 256;
  launch(stream, grid_for(stream, count, threads, threads), each_kernel<function, Arguments...>,
         count, arguments...);
}

// A block's work on items `first`, `first` + `step`, ...; all threads call its functions.
template <int threads>
struct Group {
  std::int64_t first;
  static constexpr std::int64_t step = threads;

  __device__ Group() : first(threadIdx.x) {}
  [[nodiscard]] __device__ double sum(double value) const {
    return block_reduce<threads>(value, 0.0, Sum{});
  }
  __device__ void increment(unsigned& count) const { atomicAdd(&count, 1U); }
  template <typename T>
  [[nodiscard]] __device__ T* zeroed(std::int64_t count) const {
    auto* const values = dynamic_shared<T>();
    for (std::int64_t i = first; i < count; i += step)
      values[i] = {};
    __syncthreads();
    return values;
  }
};

template <auto function, int threads, typename... Arguments>
__global__ void __launch_bounds__(threads) each_group_kernel(Arguments... arguments) {
  function(Group<threads>{}, std::int64_t{blockIdx.x}, arguments...);
}

// function(Group<threads>, i, arguments...) for each i below `count`. Room for T[n] of zeroed().
template <auto function, int threads, typename T = std::byte, typename... Arguments>
void each_group(Stream& stream, std::int64_t count, std::int64_t n, const Arguments&... arguments) {
  launch(stream,
         {.blocks = count,
          .threads = threads,
          .shared_bytes = static_cast<std::size_t>(n) * sizeof(T)},
         each_group_kernel<function, threads, Arguments...>, arguments...);
}

struct Math {
  using Value = float;
  // Finite, as on the CPU: products with underflowed values stay 0.
  __device__ static float exp(float x) { return expf(x < 88.0F ? x : 88.0F); }
  __device__ static float minimum(float a, float b) { return a < b ? a : b; }
  __device__ static float maximum(float a, float b) { return a > b ? a : b; }
  __device__ static float pick(float x, float negative, float other) {
    return x < 0.0F ? negative : other;
  }
};

// y[i] = f(operands[i]...) for functors of Math::Value; all have y's compute dtype. Also stores the
// largest magnitude of y in `amax`, unless absent.
template <typename F, typename... Tensors>
void map_measured(Stream& stream, const Tensor& amax, const Tensor& y, F f,
                  const Tensors&... operands) {
  visit_compute_dtype(y.dtype, [&]<typename T>(T) {
    transform_measured(stream, amax, y.as<T>(), y.count(), f, operands.template as<T>()...);
  });
}

}  // namespace trireme::ops::cuda
