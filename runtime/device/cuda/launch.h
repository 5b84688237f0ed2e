// SPDX-License-Identifier: Apache-2.0
// Private to the CUDA back end: kernel launches and shared helpers. Kernel sources are also
// compiled for the host against tests/emulation, so they launch through here and never with <<<>>>.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "runtime/device/cuda/cuda_device.h"
#include "runtime/device/cuda/kernel_names.h"

namespace trireme::cuda {

inline constexpr std::size_t static_shared_limit = 48 * 1024;

[[nodiscard]] constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// Blocks for a grid-stride loop over `count` items, `per_block` at a time: at most as many as fill
// the GPU.
[[nodiscard]] inline Grid grid_for(Stream& stream, std::int64_t count, std::int64_t per_block,
                                   int threads = 256) {
  const std::int64_t fill =
      std::int64_t{CudaDevice::of(stream.device()).multiprocessors()} * (2048 / threads);
  return {.blocks = std::min(ceil_div(count, per_block), fill), .threads = threads};
}

template <typename... Parameters>
void launch(Stream& stream, const Grid& grid, void (*kernel)(Parameters...),
            std::type_identity_t<Parameters>... arguments) {
  if (grid.blocks == 0) return;
  if (!asked_to_launch(stream, reinterpret_cast<const void*>(kernel), grid)) return;
  if (grid.shared_bytes > static_shared_limit) {
    TRIREME_CUDA(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                      cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(grid.shared_bytes)));
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(grid.blocks));
  config.blockDim = dim3(static_cast<unsigned>(grid.threads));
  config.dynamicSmemBytes = grid.shared_bytes;
  config.stream = CudaStream::of(stream).handle();
  TRIREME_CUDA(cudaLaunchKernelEx(&config, kernel, arguments...));
}

// The block's dynamic shared memory, aligned to 16 bytes.
template <typename T>
__device__ T* dynamic_shared() {
#if defined(__CUDACC__)
  extern __shared__ __align__(16) unsigned char trireme_dynamic_shared[];
  return reinterpret_cast<T*>(trireme_dynamic_shared);
#else
  return static_cast<T*>(emulated::dynamic_shared());
#endif
}

}  // namespace trireme::cuda
