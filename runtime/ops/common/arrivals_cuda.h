// SPDX-License-Identifier: Apache-2.0
// Private to the CUDA kernels: the last block to arrive does what needs all blocks' results, which
// saves a second kernel.
#pragma once

#include <cuda_runtime.h>

#include <cuda/atomic>

namespace trireme::ops::cuda {

// Whether this block is the last of `blocks` to arrive at this counter, which is 0 before and
// after. It then sees what the others wrote before. All threads of the block must call.
inline __device__ bool last_to_arrive(unsigned* counter, unsigned blocks) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    const ::cuda::atomic_ref<unsigned, ::cuda::thread_scope_device> arrivals(*counter);
    last = arrivals.fetch_add(1U, ::cuda::memory_order_acq_rel) + 1U == blocks;
    if (last) *counter = 0;
  }
  __syncthreads();
  const bool here = last;
  __syncthreads();
  return here;
}

}  // namespace trireme::ops::cuda
