// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/gelu_cpu.h"

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/float_types.h"
#include "runtime/ops/gelu_math.h"

namespace trireme::ops::cpu {

void gelu_forward(Stream& stream, const Tensor& y, const Tensor& x) {
  visit_compute_dtype(y.dtype, [&](auto type) {
    using T = decltype(type);
    enqueue(stream, [to = y.as<T>(), from = x.as<T>(), n = y.count()] {
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i)
        store(to[i], gelu(load(from[i])));
    });
  });
}

void gelu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x) {
  visit_compute_dtype(dx.dtype, [&](auto type) {
    using T = decltype(type);
    enqueue(stream, [to = dx.as<T>(), slope = dy.as<T>(), at = x.as<T>(), n = dx.count()] {
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i)
        store(to[i], load(slope[i]) * gelu_slope(load(at[i])));
    });
  });
}

}  // namespace trireme::ops::cpu
