// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/reduce_cuda.h"
#include "runtime/ops/update/digest.h"
#include "runtime/ops/update/digest_math.h"

namespace trireme::ops::cuda {
namespace {

constexpr int threads = 256;
// Of a thread's turn: loads that are on their way at once.
constexpr int terms = 8;

// Integers: the order in which the blocks' atomics arrive changes no bit.
__global__ void digest_kernel(std::uint64_t* digest, const float* x, std::int64_t count) {
  std::uint64_t sum = 0;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads * terms;
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * threads * terms + threadIdx.x;
       first < count; first += stride) {
#pragma unroll
    for (int j = 0; j < terms; ++j) {
      const std::int64_t i = first + j * threads;
      if (i < count) sum += digest_term(i, std::bit_cast<std::uint32_t>(x[i]));
    }
  }
  sum = block_reduce<threads>(sum, std::uint64_t{0}, Sum{});
  using Word = unsigned long long;
  if (threadIdx.x == 0) atomicAdd(reinterpret_cast<Word*>(digest), static_cast<Word>(sum));
}

}  // namespace

void accumulate_digest(Stream& stream, const Tensor& digest, const Tensor& x) {
  trireme::cuda::launch(stream,
                        trireme::cuda::grid_for(stream, x.count(), threads * terms, threads),
                        digest_kernel, digest.as<std::uint64_t>(), x.as<float>(), x.count());
}

TRIREME_CUDA_PROVIDES(ops, accumulate_digest);

}  // namespace trireme::ops::cuda
