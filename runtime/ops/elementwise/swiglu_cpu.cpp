// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/elementwise/swiglu.h"

#include <algorithm>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/magnitude_cpu.h"
#include "runtime/ops/common/simd_cpu.h"
#include "runtime/ops/elementwise/swiglu_math.h"

namespace trireme::ops::cpu {
namespace {

constexpr std::int64_t step = 2 * lanes;

// Pairs of vectors, for the reason that gelu_cpu.cpp gives. Calls action(first element, how many).
template <typename Action>
void each_pair(std::int64_t count, Action&& action) {
  std::int64_t i = 0;
  for (; i + step <= count; i += step)
    action(i, step);
  if (i < count) action(i, count - i);
}

// `count` elements of a row; the rest of the pair is zero.
template <typename T>
[[gnu::always_inline]] inline VectorPair load_some(const T* from, std::int64_t count) {
  if (count == step) return load_pair(from);
  T some[step] = {};
  std::copy_n(from, count, some);
  return load_pair(some);
}
template <typename T>
[[gnu::always_inline]] inline void store_some(T* to, const VectorPair& values, std::int64_t count) {
  if (count == step) return store_pair(to, values);
  T some[step];
  store_pair(some, values);
  std::copy_n(some, count, to);
}

[[gnu::always_inline]] inline auto gradient_of(Vector slope, Vector gate, Vector value) {
  return swiglu_gradient(slope, gate, value, exp_vector(-gate));
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
                each_pair(columns, [&](std::int64_t i, std::int64_t count) {
                  const VectorPair gate = load_some(gates + i, count);
                  const VectorPair value = load_some(gates + columns + i, count);
                  store_some(out + i,
                             {swiglu_value(gate.first, value.first, exp_vector(-gate.first)),
                              swiglu_value(gate.second, value.second, exp_vector(-gate.second))},
                             count);
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
        each_pair(columns, [&](std::int64_t i, std::int64_t count) {
          const VectorPair slope = load_some(slopes + row * columns + i, count);
          const VectorPair gate = load_some(gates + i, count);
          const VectorPair value = load_some(gates + columns + i, count);
          const auto first = gradient_of(slope.first, gate.first, value.first);
          const auto second = gradient_of(slope.second, gate.second, value.second);
          store_some(out + i, {first.gate, second.gate}, count);
          store_some(out + columns + i, {first.value, second.value}, count);
        });
      }
    });
    enqueue_magnitude<T>(stream, amax, dx);
  });
}

}  // namespace trireme::ops::cpu
