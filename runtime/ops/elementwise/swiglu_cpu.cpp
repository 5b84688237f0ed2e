// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/elementwise/swiglu.h"

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/float_types.h"
#include "runtime/ops/common/vector_math_cpu.h"
#include "runtime/ops/elementwise/swiglu_math.h"

namespace trireme::ops::cpu {

void swiglu_forward(Stream& stream, const Tensor& y, const Tensor& x) {
  visit_compute_dtype(y.dtype, [&](auto type) {
    using T = decltype(type);
    enqueue(stream,
            [to = y.as<T>(), from = x.as<T>(), rows = y.shape.rows(), columns = y.shape.back()] {
              for (std::int64_t row = 0; row < rows; ++row) {
                T* const out = to + row * columns;
                const T* const gate = from + 2 * row * columns;
                const T* const value = gate + columns;
#pragma omp simd
                for (std::int64_t i = 0; i < columns; ++i) {
                  const float g = load(gate[i]);
                  store(out[i], swiglu_value(g, load(value[i]), fast_exp(-g)));
                }
              }
            });
  });
}

void swiglu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x) {
  visit_compute_dtype(dx.dtype, [&](auto type) {
    using T = decltype(type);
    enqueue(stream, [to = dx.as<T>(), slopes = dy.as<T>(), from = x.as<T>(), rows = dy.shape.rows(),
                     columns = dy.shape.back()] {
      for (std::int64_t row = 0; row < rows; ++row) {
        const T* const slope = slopes + row * columns;
        const T* const gate = from + 2 * row * columns;
        const T* const value = gate + columns;
        T* const d_gate = to + 2 * row * columns;
        T* const d_value = d_gate + columns;
#pragma omp simd
        for (std::int64_t i = 0; i < columns; ++i) {
          const float g = load(gate[i]);
          const auto gradient = swiglu_gradient(load(slope[i]), g, load(value[i]), fast_exp(-g));
          store(d_gate[i], gradient.gate);
          store(d_value[i], gradient.value);
        }
      }
    });
  });
}

}  // namespace trireme::ops::cpu
