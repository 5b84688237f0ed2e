// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/common/maps_cpu.h"
#include "runtime/ops/elementwise/activation_maps.h"

namespace trireme::ops::cpu {
namespace {

// One row.
template <typename F, typename T>
void forward_gated(T* to, const T* gates, const T* values, std::int64_t columns) {
  each_pair(columns, [=](std::int64_t i, std::int64_t n) {
    const VectorPair gate = load_some(gates + i, n), value = load_some(values + i, n);
    store_some(to + i,
               {F::value(gate.first) * F::factor(value.first),
                F::value(gate.second) * F::factor(value.second)},
               n);
  });
}

template <typename F, typename T>
void backward_gated(T* dgates, T* dvalues, const T* dy, const T* gates, const T* values,
                    std::int64_t columns) {
  each_pair(columns, [=](std::int64_t i, std::int64_t n) {
    const VectorPair slope = load_some(dy + i, n);
    const VectorPair gate = load_some(gates + i, n), value = load_some(values + i, n);
    store_some(dgates + i,
               {slope.first * F::factor(value.first) * F::slope(gate.first),
                slope.second * F::factor(value.second) * F::slope(gate.second)},
               n);
    store_some(dvalues + i,
               {F::of_value(F::times(slope.first, gate.first), value.first),
                F::of_value(F::times(slope.second, gate.second), value.second)},
               n);
  });
}

}  // namespace

void gated_forward(Stream& stream, const Tensor& y, const Tensor& x, ActivationKind kind,
                   const Tensor& amax) {
  visit(y.dtype, kind, [&]<typename T>(T, auto functor) {
    enqueue(stream, [to = y.as<T>(), from = x.as<T>(), rows = y.shape.rows(),
                     columns = y.shape.back()] {
      for (std::int64_t row = 0; row < rows; ++row) {
        const T* const gates = from + 2 * row * columns;
        forward_gated<decltype(functor)>(to + row * columns, gates, gates + columns, columns);
      }
    });
    enqueue_magnitude<T>(stream, amax, y);
  });
}

void gated_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x,
                    ActivationKind kind, const Tensor& amax) {
  visit(dx.dtype, kind, [&]<typename T>(T, auto functor) {
    enqueue(stream, [to = dx.as<T>(), slopes = dy.as<T>(), from = x.as<T>(), rows = dy.shape.rows(),
                     columns = dy.shape.back()] {
      for (std::int64_t row = 0; row < rows; ++row) {
        const T* const gates = from + 2 * row * columns;
        T* const out = to + 2 * row * columns;
        backward_gated<decltype(functor)>(out, out + columns, slopes + row * columns, gates,
                                          gates + columns, columns);
      }
    });
    enqueue_magnitude<T>(stream, amax, dx);
  });
}

}  // namespace trireme::ops::cpu
