// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/elementwise/gelu.h"

#include <algorithm>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/magnitude_cpu.h"
#include "runtime/ops/common/simd_cpu.h"
#include "runtime/ops/elementwise/gelu_math.h"

namespace trireme::ops::cpu {
namespace {

// Whole vectors, in pairs (simd_cpu.h): as a loop over single values the compiler takes the limits
// of exp as branches and drags them through all that follows, at half the speed for bf16.
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

template <typename VectorGelu, typename T>
[[gnu::always_inline]] inline void forward_pair(T* to, const T* from) {
  const VectorPair x = load_pair(from);
  store_pair(to, {VectorGelu::value(x.first), VectorGelu::value(x.second)});
}

template <typename VectorGelu, typename T>
[[gnu::always_inline]] inline void backward_pair(T* dx, const T* dy, const T* from) {
  const VectorPair x = load_pair(from), slope = load_pair(dy);
  store_pair(
      dx, {slope.first * VectorGelu::slope(x.first), slope.second * VectorGelu::slope(x.second)});
}

template <typename VectorGelu, typename T>
void forward(T* to, const T* from, std::int64_t count) {
  constexpr std::int64_t step = 2 * lanes;
  std::int64_t i = 0;
  for (; i + step <= count; i += step)
    forward_pair<VectorGelu>(to + i, from + i);
  T rest[step] = {};
  std::copy(from + i, from + count, rest);
  forward_pair<VectorGelu>(rest, rest);
  std::copy_n(rest, count - i, to + i);
}

template <typename VectorGelu, typename T>
void backward(T* dx, const T* dy, const T* x, std::int64_t count) {
  constexpr std::int64_t step = 2 * lanes;
  std::int64_t i = 0;
  for (; i + step <= count; i += step)
    backward_pair<VectorGelu>(dx + i, dy + i, x + i);
  T slope[step] = {};
  T rest[step] = {};
  std::copy(dy + i, dy + count, slope);
  std::copy(x + i, x + count, rest);
  backward_pair<VectorGelu>(rest, slope, rest);
  std::copy_n(rest, count - i, dx + i);
}

// Calls action(gelu) with an object of the form.
template <typename Action>
void visit_form(GeluForm form, Action&& action) {
  form == GeluForm::exact ? action(ExactGelu<VectorMath>{}) : action(Gelu<VectorMath>{});
}

}  // namespace

void gelu_forward(Stream& stream, const Tensor& y, const Tensor& x, GeluForm form,
                  const Tensor& amax) {
  visit_compute_dtype(y.dtype, [&](auto type) {
    using T = decltype(type);
    visit_form(form, [&](auto gelu) {
      enqueue(stream, [to = y.as<T>(), from = x.as<T>(), n = y.count()] {
        forward<decltype(gelu)>(to, from, n);
      });
    });
    enqueue_magnitude<T>(stream, amax, y);
  });
}

void gelu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x,
                   GeluForm form, const Tensor& amax) {
  visit_compute_dtype(dx.dtype, [&](auto type) {
    using T = decltype(type);
    visit_form(form, [&](auto gelu) {
      enqueue(stream, [dx = dx.as<T>(), dy = dy.as<T>(), x = x.as<T>(), n = dx.count()] {
        backward<decltype(gelu)>(dx, dy, x, n);
      });
    });
    enqueue_magnitude<T>(stream, amax, dx);
  });
}

}  // namespace trireme::ops::cpu
