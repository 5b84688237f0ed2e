// SPDX-License-Identifier: Apache-2.0
// Private to the CUDA kernels: finds a place in a table of runs.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace trireme::ops::cuda {

// The last of `runs` (at least one) entries with `first` <= `place`; they ascend from 0.
template <typename Entry>
__device__ int last_from(const Entry* entries, int runs, std::int64_t Entry::*first,
                         std::int64_t place) {
  int low = 0, high = runs;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (entries[middle].*first <= place) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace trireme::ops::cuda
