// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/reduce_cuda.h"
#include "runtime/ops/update/digest.h"

namespace trireme::ops::cuda {
namespace {

constexpr int threads = 256;
// Per iteration of a thread: loads in flight.
constexpr int terms = 8;

// Places of elements in strided rows. A 64-bit division would take as long as everything else here;
// the quotient of doubles is off by at most one below 2^53 elements.
struct Rows {
  DigestPlaces places;
  double inverse_width;

  explicit Rows(const DigestPlaces& from)
      : places(from),
        inverse_width(1.0 / static_cast<double>(std::max<std::int64_t>(from.width, 1))) {}
  __device__ std::int64_t place(std::int64_t i) const {
    const std::int64_t at = places.first + i;
    auto row = static_cast<std::int64_t>(static_cast<double>(at) * inverse_width);
    std::int64_t column = at - row * places.width;
    const std::int64_t off = column < 0 ? -1 : column >= places.width ? 1 : 0;
    row += off;
    column -= off * places.width;
    return row * places.stride + column;
  }
};

// Integers: the order of the blocks' atomics does not matter.
template <bool apart>
__global__ void digest_kernel(std::uint64_t* digest, const float* x, std::int64_t count,
                              Rows rows) {
  std::uint64_t sum = 0;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads * terms;
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * threads * terms + threadIdx.x;
       first < count; first += stride) {
#pragma unroll
    for (int j = 0; j < terms; ++j) {
      const std::int64_t i = first + j * threads;
      if (i >= count) continue;
      const std::int64_t place = apart ? rows.place(i) : i;
      sum += digest_term(rows.places.base + static_cast<std::uint64_t>(place),
                         std::bit_cast<std::uint32_t>(x[i]));
    }
  }
  sum = block_reduce<threads>(sum, std::uint64_t{0}, Sum{});
  using Word = unsigned long long;
  if (threadIdx.x == 0) atomicAdd(reinterpret_cast<Word*>(digest), static_cast<Word>(sum));
}

}  // namespace

void accumulate_digest(Stream& stream, const Tensor& digest, const Tensor& x,
                       const DigestPlaces& places) {
  launch(stream, grid_for(stream, x.count(), threads * terms, threads),
         places.width > 0 ? digest_kernel<true> : digest_kernel<false>, digest.as<std::uint64_t>(),
         x.as<float>(), x.count(), Rows(places));
}

TRIREME_CUDA_PROVIDES(ops, accumulate_digest);

}  // namespace trireme::ops::cuda
