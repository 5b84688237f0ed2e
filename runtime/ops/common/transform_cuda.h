// SPDX-License-Identifier: Apache-2.0
// Private to the CUDA kernels: y[i] = f(a[i], b[i], ...) over flat tensors, computed in f32.
#pragma once

#include <utility>

#include "runtime/ops/common/launch_cuda.h"
#include "runtime/ops/common/magnitude_cuda.h"

namespace trireme::ops::cuda {

// Calls seen(pack) with each stored pack. y may alias any operand.
template <int width, typename T, typename F, typename Seen, typename... Operands>
__device__ void transform_elements(T* y, std::int64_t count, const F& f, const Seen& seen,
                                   const Operands*... operands) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x * width;
  std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * width;
  for (; i + width <= count; i += stride) {
    Pack<T, width> out;
    [&](const auto&... packs) {
      for (int j = 0; j < width; ++j)
        store(out[j], f(load(packs[j])...));
    }(load_pack<width>(operands + i)...);
    store_pack(y + i, out);
    seen(out);
  }
  // The last, partial pack.
  for (; i < count; ++i) {
    Pack<T, 1> out;
    store(out[0], f(load(operands[i])...));
    y[i] = out[0];
    seen(out);
  }
}

template <int width, typename T, typename F, typename... Operands>
__global__ void transform_kernel(T* y, std::int64_t count, F f, const Operands*... operands) {
  transform_elements<width>(
      y, count, f, [](const auto&) {}, operands...);
}

inline constexpr int transform_threads = 256;

// Also stores the largest magnitude of y.
template <int width, typename T, typename F, typename... Operands>
__global__ void measured_transform_kernel(LargestMagnitude magnitude, T* y, std::int64_t count, F f,
                                          const Operands*... operands) {
  MagnitudesSeen<T> seen;
  transform_elements<width>(
      y, count, f, [&](const auto& stored) { seen.see(stored); }, operands...);
  magnitude.leave<transform_threads>(seen);
}

// Calls action(width, grid) with the widest pack that all operands allow.
template <typename T, typename... Operands, typename Action>
void with_transform_grid(Stream& stream, const T* y, std::int64_t count, const Action& action,
                         const Operands*... operands) {
  constexpr std::size_t widest = std::max({sizeof(T), sizeof(Operands)...});
  constexpr int width = pack_bytes / static_cast<int>(widest);
  constexpr int threads = transform_threads;
  if (packs_fit(y, 0, width) && (packs_fit(operands, 0, width) && ...)) {
    action(std::integral_constant<int, width>{}, grid_for(stream, count, threads * width, threads));
  } else {
    action(std::integral_constant<int, 1>{}, grid_for(stream, count, threads, threads));
  }
}

template <typename T, typename F, typename... Operands>
void transform(Stream& stream, T* y, std::int64_t count, F f, const Operands*... operands) {
  with_transform_grid(
      stream, y, count,
      [&](auto width, const auto& grid) {
        launch(stream, grid, transform_kernel<width, T, F, Operands...>, y, count, f, operands...);
      },
      operands...);
}

// The same; also stores the largest magnitude of y in `amax`, unless absent.
template <typename T, typename F, typename... Operands>
void transform_measured(Stream& stream, const Tensor& amax, T* y, std::int64_t count, F f,
                        const Operands*... operands) {
  if (amax.empty()) return transform(stream, y, count, f, operands...);
  with_transform_grid(
      stream, y, count,
      [&](auto width, const auto& grid) {
        launch(stream, grid, measured_transform_kernel<width, T, F, Operands...>,
               largest_magnitude_in(stream, amax), y, count, f, operands...);
      },
      operands...);
}

}  // namespace trireme::ops::cuda
