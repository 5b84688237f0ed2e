// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/elementwise/activation.h"

#include <algorithm>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/magnitude_cpu.h"
#include "runtime/ops/common/simd_cpu.h"
#include "runtime/ops/elementwise/activation_math.h"

namespace trireme::ops::cpu {
namespace {

// Whole vectors, in pairs (simd_cpu.h): in a scalar loop the compiler turns the limits of exp into
// branches, which halves the speed for bf16.
struct VectorMath {
  using Value = Vector;
  [[gnu::always_inline]] static Vector exp(Vector x) { return exp_vector(x); }
  [[gnu::always_inline]] static Vector minimum(float a, Vector b) {
    return cpu::minimum(broadcast(a), b);
  }
  [[gnu::always_inline]] static Vector maximum(float a, Vector b) {
    return cpu::maximum(broadcast(a), b);
  }
  [[gnu::always_inline]] static Vector pick(Vector x, Vector negative, Vector other) {
    return x < 0.0F ? negative : other;
  }
};

constexpr std::int64_t step = 2 * lanes;

// Calls action(first element, count).
template <typename Action>
[[gnu::always_inline]] inline void each_pair(std::int64_t count, Action&& action) {
  std::int64_t i = 0;
  for (; i + step <= count; i += step)
    action(i, step);
  if (i < count) action(i, count - i);
}

// `count` elements; the rest of the pair is zero.
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

template <typename F, typename T>
void forward(T* to, const T* from, std::int64_t count) {
  each_pair(count, [=](std::int64_t i, std::int64_t n) {
    const VectorPair x = load_some(from + i, n);
    store_some(to + i, {F::value(x.first), F::value(x.second)}, n);
  });
}

template <typename F, typename T>
void backward(T* to, const T* dy, const T* from, std::int64_t count) {
  each_pair(count, [=](std::int64_t i, std::int64_t n) {
    const VectorPair x = load_some(from + i, n), slope = load_some(dy + i, n);
    store_some(to + i, {slope.first * F::slope(x.first), slope.second * F::slope(x.second)}, n);
  });
}

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

// y[i] = f(x[i]).
template <typename F>
void enqueue_each(Stream& stream, const Tensor& y, const Tensor& x, F f) {
  visit_compute_dtype(y.dtype, [&]<typename T>(T) {
    enqueue(stream, [to = y.as<T>(), from = x.as<T>(), count = y.count(), f] {
      each_pair(count, [=](std::int64_t i, std::int64_t n) {
        const VectorPair x = load_some(from + i, n);
        store_some(to + i, {f(x.first), f(x.second)}, n);
      });
    });
  });
}
// dx[i] = f(dy[i], y[i]).
template <typename F>
void enqueue_each(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& y, F f) {
  visit_compute_dtype(dx.dtype, [&]<typename T>(T) {
    enqueue(stream, [to = dx.as<T>(), dy = dy.as<T>(), from = y.as<T>(), count = dx.count(), f] {
      each_pair(count, [=](std::int64_t i, std::int64_t n) {
        const VectorPair slope = load_some(dy + i, n), y = load_some(from + i, n);
        store_some(to + i, {f(slope.first, y.first), f(slope.second, y.second)}, n);
      });
    });
  });
}

// Calls action(an element of dtype, functor of the kind).
template <typename Action>
void visit(DType dtype, ActivationKind kind, Action&& action) {
  visit_compute_dtype(dtype, [&](auto type) {
    visit_activation<VectorMath>(kind, [&](auto functor) { action(type, functor); });
  });
}

}  // namespace

void activation_forward(Stream& stream, const Tensor& y, const Tensor& x, ActivationKind kind,
                        const Tensor& amax) {
  visit(y.dtype, kind, [&]<typename T>(T, auto functor) {
    enqueue(stream, [to = y.as<T>(), from = x.as<T>(), n = y.count()] {
      forward<decltype(functor)>(to, from, n);
    });
    enqueue_magnitude<T>(stream, amax, y);
  });
}

void activation_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x,
                         ActivationKind kind, const Tensor& amax) {
  visit(dx.dtype, kind, [&]<typename T>(T, auto functor) {
    enqueue(stream, [dx = dx.as<T>(), dy = dy.as<T>(), x = x.as<T>(), n = dx.count()] {
      backward<decltype(functor)>(dx, dy, x, n);
    });
    enqueue_magnitude<T>(stream, amax, dx);
  });
}

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

void leaky_relu_forward(Stream& stream, const Tensor& y, const Tensor& x, float slope) {
  enqueue_each(stream, y, x, LeakyRelu<VectorMath>{slope});
}

void leaky_relu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& y,
                         float slope) {
  enqueue_each(stream, dx, dy, y, LeakyReluBackward<VectorMath>{slope});
}

void tanh_forward(Stream& stream, const Tensor& y, const Tensor& x, float scale) {
  enqueue_each(stream, y, x, Tanh<VectorMath>{scale});
}

void tanh_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& y,
                   float scale) {
  enqueue_each(stream, dx, dy, y, TanhBackward<VectorMath>{scale});
}

}  // namespace trireme::ops::cpu
