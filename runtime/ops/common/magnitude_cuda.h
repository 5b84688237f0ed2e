// SPDX-License-Identifier: Apache-2.0
// Private to the CUDA kernels: a kernel stores the largest magnitude of its output. Blocks join
// theirs at counters of the stream; they are integers, so the order does not matter.
#pragma once

#include <cuda/atomic>

#include "runtime/ops/common/magnitude.h"
#include "runtime/ops/common/pack_cuda.h"
#include "runtime/ops/common/reduce_cuda.h"

namespace trireme::ops::cuda {

// The largest magnitude of a thread's values of T; for 16-bit types on their bits, with even and
// odd elements side by side.
template <typename T>
class MagnitudesSeen {
 public:
  template <int width>
  __device__ void see(const Pack<T, width>& pack) {
    if constexpr (sizeof(T) == sizeof(std::uint32_t)) {
#pragma unroll
      for (int j = 0; j < width; ++j)
        bits_ = Max{}(bits_, magnitude_of(pack[j]));
    } else if constexpr (width % 2 == 0) {
      const auto words = __builtin_bit_cast(Words<width / 2>, pack);
#pragma unroll
      for (int j = 0; j < width / 2; ++j)
        see_pair(words.word[j]);
    } else {
#pragma unroll
      for (int j = 0; j < width; ++j)
        see_pair(__builtin_bit_cast(std::uint16_t, pack[j]));
    }
  }
  // For the pack at `column` of a row; ignores elements past the row's end.
  template <bool aligned, int width>
  __device__ void see(Pack<T, width> pack, std::int64_t column, std::int64_t columns) {
    if constexpr (!aligned) {
#pragma unroll
      for (int j = 0; j < width; ++j) {
        if (column + j >= columns) pack[j] = T{};
      }
    }
    see(pack);
  }

  [[nodiscard]] __device__ std::uint32_t largest() const {
    if constexpr (sizeof(T) == sizeof(std::uint32_t)) return bits_;
    const auto half = static_cast<std::uint16_t>(Max{}(bits_ & 0xffffU, bits_ >> 16));
    return magnitude_of(load(__builtin_bit_cast(T, static_cast<Bits>(half))));
  }

 private:
  using Bits = std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint32_t>;
  template <int count>
  struct Words {
    std::uint32_t word[count];
  };

  __device__ void see_pair(std::uint32_t pair) {
    pair &= 0x7fff7fffU;
#if defined(__CUDA_ARCH__)
    bits_ = __vmaxu2(bits_, pair);
#else
    const std::uint32_t low = Max{}(bits_ & 0xffffU, pair & 0xffffU);
    bits_ = Max{}(bits_ >> 16, pair >> 16) << 16 | low;
#endif
  }

  std::uint32_t bits_ = 0;
};

// Passed by value to the kernel.
struct LargestMagnitude {
  std::uint32_t* result;  // null: not wanted
  unsigned* so_far;  // followed by the count of arrived blocks: zero before the kernel and after

  [[nodiscard]] TRIREME_HOST_DEVICE bool wanted() const { return result != nullptr; }

  // All threads of each block must call it, once, with what each stored.
  template <int threads, typename T>
  __device__ void leave(const MagnitudesSeen<T>& stored) const {
    using Joined = ::cuda::atomic_ref<unsigned, ::cuda::thread_scope_device>;
    if (!wanted()) return;
    const std::uint32_t mine = block_reduce<threads>(stored.largest(), std::uint32_t{0}, Max{});
    if (threadIdx.x != 0) return;
    const Joined largest(so_far[0]), come(so_far[1]);
    largest.fetch_max(mine, ::cuda::memory_order_relaxed);
    if (come.fetch_add(1U, ::cuda::memory_order_acq_rel) + 1U != gridDim.x) return;
    *result = so_far[0];
    so_far[0] = 0;
    so_far[1] = 0;
  }
};

// For one kernel on this stream. `amax` may be absent.
[[nodiscard]] inline LargestMagnitude largest_magnitude_in(Stream& stream, const Tensor& amax) {
  if (amax.empty()) return {};
  constexpr std::size_t first = 64;  // after those of sums in the same kernel
  return {amax.as<std::uint32_t>(), CudaStream::of(stream).arrivals(first + 2) + first};
}

}  // namespace trireme::ops::cuda
