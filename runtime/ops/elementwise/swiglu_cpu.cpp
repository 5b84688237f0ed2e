// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/elementwise/swiglu.h"

#include <algorithm>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/magnitude_cpu.h"
#include "runtime/ops/common/simd_cpu.h"
#include "runtime/ops/elementwise/swiglu_math.h"

namespace trireme::ops::cpu {
namespace {

// Whole vectors, for the reason that gelu_cpu.cpp gives. Calls action(first element, how many).
template <typename Action>
void each_vector(std::int64_t count, Action&& action) {
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    action(i, lanes);
  if (i < count) action(i, static_cast<int>(count - i));
}

// `count` elements of a row; the rest of the vector is zero.
template <typename T>
[[gnu::always_inline]] inline Vector load_some(const T* from, int count) {
  if (count == lanes) return load_vector(from);
  T some[lanes] = {};
  std::copy_n(from, count, some);
  return load_vector(some);
}
template <typename T>
[[gnu::always_inline]] inline void store_some(T* to, Vector value, int count) {
  if (count == lanes) return store_vector(to, value);
  T some[lanes];
  store_vector(some, value);
  std::copy_n(some, count, to);
}

}  // namespace

void swiglu_forward(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& amax) {
  visit_compute_dtype(y.dtype, [&](auto type) {
    using T = decltype(type);
    enqueue(stream,
            [to = y.as<T>(), from = x.as<T>(), rows = y.shape.rows(), columns = y.shape.back()] {
              for (std::int64_t row = 0; row < rows; ++row) {
                T* const out = to + row * columns;
                const T* const gates = from + 2 * row * columns;
                each_vector(columns, [&](std::int64_t i, int count) {
                  const Vector gate = load_some(gates + i, count);
                  const Vector value = load_some(gates + columns + i, count);
                  store_some(out + i, swiglu_value(gate, value, exp_vector(-gate)), count);
                });
              }
            });
    enqueue_magnitude<T>(stream, amax, y);
  });
}

void swiglu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x,
                     const Tensor& amax) {
  visit_compute_dtype(dx.dtype, [&](auto type) {
    using T = decltype(type);
    enqueue(stream, [to = dx.as<T>(), slopes = dy.as<T>(), from = x.as<T>(), rows = dy.shape.rows(),
                     columns = dy.shape.back()] {
      for (std::int64_t row = 0; row < rows; ++row) {
        const T* const gates = from + 2 * row * columns;
        T* const out = to + 2 * row * columns;
        each_vector(columns, [&](std::int64_t i, int count) {
          const Vector slope = load_some(slopes + row * columns + i, count);
          const Vector gate = load_some(gates + i, count);
          const Vector value = load_some(gates + columns + i, count);
          const auto gradient = swiglu_gradient(slope, gate, value, exp_vector(-gate));
          store_some(out + i, gradient.gate, count);
          store_some(out + columns + i, gradient.value, count);
        });
      }
    });
    enqueue_magnitude<T>(stream, amax, dx);
  });
}

}  // namespace trireme::ops::cpu
