// SPDX-License-Identifier: Apache-2.0
// Private to the CUDA kernels: y[i] = f(a[i], b[i], ...) over flat tensors, computed in f32.
#pragma once

#include <utility>

#include "runtime/device/cuda/launch.h"
#include "runtime/ops/common/pack_cuda.h"

namespace trireme::ops::cuda {

// y may be any of the operands.
template <int width, typename T, typename F, typename... Operands>
__global__ void transform_kernel(T* y, std::int64_t count, F f, const Operands*... operands) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x * width;
  std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * width;
  for (; i + width <= count; i += stride) {
    Pack<T, width> out;
    [&](const auto&... packs) {
      for (int j = 0; j < width; ++j)
        store(out[j], f(load(packs[j])...));
    }(load_pack<width>(operands + i)...);
    store_pack(y + i, out);
  }
  // The last, partial pack.
  for (; i < count; ++i)
    store(y[i], f(load(operands[i])...));
}

template <typename T, typename F, typename... Operands>
void transform(Stream& stream, T* y, std::int64_t count, F f, const Operands*... operands) {
  constexpr std::size_t widest = std::max({sizeof(T), sizeof(Operands)...});
  constexpr int width = pack_bytes / static_cast<int>(widest);
  const bool fits = packs_fit(y, 0, width) && (packs_fit(operands, 0, width) && ...);
  constexpr int threads = 256;
  if (fits) {
    trireme::cuda::launch(stream, trireme::cuda::grid_for(stream, count, threads * width, threads),
                          transform_kernel<width, T, F, Operands...>, y, count, f, operands...);
  } else {
    trireme::cuda::launch(stream, trireme::cuda::grid_for(stream, count, threads, threads),
                          transform_kernel<1, T, F, Operands...>, y, count, f, operands...);
  }
}

}  // namespace trireme::ops::cuda
