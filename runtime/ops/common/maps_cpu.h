// SPDX-License-Identifier: Apache-2.0
// Private: what ops that are written once for all back ends (X_maps.h) are made of, on the CPU. A
// source of a back end includes this file, or maps_cuda.h, before X_maps.h.
#pragma once

#include <algorithm>
#include <vector>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/magnitude_cpu.h"
#include "runtime/ops/common/simd_cpu.h"

#define TRIREME_BACK_END cpu
#define TRIREME_DEVICE
#define TRIREME_PROVIDES(...) static_assert(true, "only the CUDA back end is registered")

namespace trireme::ops::cpu {

// function(i, arguments...) for each i below `count`.
template <auto function, typename... Arguments>
void each(Stream& stream, std::int64_t count, const Arguments&... arguments) {
  enqueue(stream, [=] {
    for (std::int64_t i = 0; i < count; ++i)
      function(i, arguments...);
  });
}

// Work of one thread, or of a GPU's block, on items `first`, `first` + `step`, ...
template <int threads>
struct Group {
  std::int64_t first = 0;
  static constexpr std::int64_t step = 1;

  [[nodiscard]] double sum(double value) const { return value; }
  void increment(unsigned& count) const { ++count; }
  template <typename T>
  [[nodiscard]] T* zeroed(std::int64_t count) const {
    static thread_local std::vector<T> values;
    values.assign(static_cast<std::size_t>(count), {});
    return values.data();
  }
};

// function(Group<threads>, i, arguments...) for each i below `count`. Room for T[n] of zeroed().
template <auto function, int threads, typename T = std::byte, typename... Arguments>
void each_group(Stream& stream, std::int64_t count, std::int64_t /*n*/,
                const Arguments&... arguments) {
  enqueue(stream, [=] {
    for (std::int64_t i = 0; i < count; ++i)
      function(Group<threads>{}, i, arguments...);
  });
}

// y[i] = f(operands[i]...) in f32. Operands may be y itself, which `omp simd` permits: each
// iteration reads and writes its own index only.
template <typename T, typename F, typename... Operands>
void transform(Stream& stream, T* y, std::int64_t count, F f, const Operands*... operands) {
  enqueue(stream, [=] {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i)
      store(y[i], f(load(operands[i])...));
  });
}

// Whole vectors, in pairs (simd_cpu.h): in a scalar loop the compiler turns the limits of exp into
// branches, which halves the speed for bf16.
struct Math {
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

inline constexpr std::int64_t vector_step = 2 * lanes;

// Calls action(first element, count).
template <typename Action>
[[gnu::always_inline]] inline void each_pair(std::int64_t count, Action&& action) {
  std::int64_t i = 0;
  for (; i + vector_step <= count; i += vector_step)
    action(i, vector_step);
  if (i < count) action(i, count - i);
}

// `count` elements; the rest of the pair is zero.
template <typename T>
[[gnu::always_inline]] inline VectorPair load_some(const T* from, std::int64_t count) {
  if (count == vector_step) return load_pair(from);
  T some[vector_step] = {};
  std::copy_n(from, count, some);
  return load_pair(some);
}
template <typename T>
[[gnu::always_inline]] inline void store_some(T* to, const VectorPair& values, std::int64_t count) {
  if (count == vector_step) return store_pair(to, values);
  T some[vector_step];
  store_pair(some, values);
  std::copy_n(some, count, to);
}

// y[i] = f(operands[i]...) for functors of Math::Value; all have y's compute dtype. Also stores the
// largest magnitude of y in `amax`, unless absent.
template <typename F, typename... Tensors>
void map_measured(Stream& stream, const Tensor& amax, const Tensor& y, F f,
                  const Tensors&... operands) {
  visit_compute_dtype(y.dtype, [&]<typename T>(T) {
    enqueue(stream, [f, to = y.as<T>(), count = y.count(), ... from = operands.template as<T>()] {
      each_pair(count, [=](std::int64_t i, std::int64_t n) {
        const auto store_result = [=](const auto&... pairs) {
          store_some(to + i, {f(pairs.first...), f(pairs.second...)}, n);
        };
        store_result(load_some(from + i, n)...);
      });
    });
    enqueue_magnitude<T>(stream, amax, y);
  });
}

}  // namespace trireme::ops::cpu
