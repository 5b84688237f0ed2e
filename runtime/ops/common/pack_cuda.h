// SPDX-License-Identifier: Apache-2.0
// Private to the CUDA kernels: memory is accessed in packs of 16 bytes if every operand is aligned
// to them, else by element. The width is a template argument of the kernels.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "runtime/base/host_device.h"
#include "runtime/ops/common/float_types.h"

namespace trireme::ops::cuda {

inline constexpr int pack_bytes = 16;

// `width` elements that are moved together.
template <typename T, int width>
struct alignas(width * sizeof(T) > pack_bytes ? pack_bytes : width * sizeof(T)) Pack {
  T values[width];

  __device__ const T& operator[](int i) const { return values[i]; }
  __device__ T& operator[](int i) { return values[i]; }
};

template <int width, typename T>
__device__ Pack<T, width> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, width>*>(from);
}
template <typename T, int width>
__device__ void store_pack(T* to, const Pack<T, width>& pack) {
  *reinterpret_cast<Pack<T, width>*>(to) = pack;
}
// Stores to global memory in one instruction: nvcc splits a pack whose elements were changed in
// place into four. Needs registers.
template <typename T, int width>
__device__ void store_at_once(T* to, const Pack<T, width>& pack) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(pack) == sizeof(uint4)) {
    __stwb(reinterpret_cast<uint4*>(to), __builtin_bit_cast(uint4, pack));
    return;
  }
#endif
  store_pack(to, pack);
}

// Elements of T in a pack of 16 bytes.
template <typename T>
inline constexpr int pack_width = pack_bytes / static_cast<int>(sizeof(T));

// Whether all rows of `row` elements from here on start at a pack.
template <typename T>
[[nodiscard]] bool packs_fit(const T* data, std::int64_t row, int width) {
  return reinterpret_cast<std::uintptr_t>(data) % (static_cast<std::size_t>(width) * sizeof(T)) ==
             0 &&
         row % width == 0;
}

// Calls action(width) with std::integral_constant<int, width>: the widest pack of compute dtype T
// if `fits`, else 1.
template <typename T, typename Action>
void with_width(bool fits, Action&& action) {
  if (fits) {
    action(std::integral_constant<int, pack_width<T>>{});
  } else {
    action(std::integral_constant<int, 1>{});
  }
}

}  // namespace trireme::ops::cuda
