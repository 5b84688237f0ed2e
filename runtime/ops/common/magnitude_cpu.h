// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/float_types.h"
#include "runtime/ops/common/magnitude.h"

namespace trireme::ops::cpu {

template <typename T>
std::uint32_t largest_magnitude_of(const T* x, std::int64_t count) {
  std::uint32_t result = 0;
#pragma omp simd reduction(max : result)
  for (std::int64_t i = 0; i < count; ++i)
    result = std::max(result, magnitude_of(load(x[i])));
  return result;
}

// Enqueue it after the task that writes x: stores its largest magnitude, unless `amax` is absent.
template <typename T>
void enqueue_magnitude(Stream& stream, const Tensor& amax, const Tensor& x) {
  if (amax.empty()) return;
  enqueue(stream, [to = amax.as<std::uint32_t>(), from = x.as<T>(), count = x.count()] {
    *to = largest_magnitude_of(from, count);
  });
}

}  // namespace trireme::ops::cpu
