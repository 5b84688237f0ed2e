// SPDX-License-Identifier: Apache-2.0
// Private: a vector register of floats by the compiler's vector extensions: the same source gives
// AVX-512, AVX2 or SSE code. Only register-blocked kernels need it; other loops are plain loops
// with `omp simd`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "runtime/base/dtype.h"

namespace trireme::ops::cpu {

#if defined(__AVX512F__)
inline constexpr int lanes = 16;
#elif defined(__AVX__)
inline constexpr int lanes = 8;
#else
inline constexpr int lanes = 4;
#endif

using Vector = float __attribute__((vector_size(lanes * sizeof(float))));
// The same for any float address.
using UnalignedVector =
    float __attribute__((vector_size(lanes * sizeof(float)), aligned(sizeof(float)), may_alias));

[[gnu::always_inline]] inline Vector load_vector(const float* from) {
  return *reinterpret_cast<const UnalignedVector*>(from);
}
[[gnu::always_inline]] inline void store_vector(float* to, Vector value) {
  *reinterpret_cast<UnalignedVector*>(to) = value;
}

// bf16 and f16 values widen to floats and round to nearest even, like their scalar types.
using Words = std::uint32_t __attribute__((vector_size(lanes * sizeof(std::uint32_t))));
using HalfWords = std::uint16_t
    __attribute__((vector_size(lanes * sizeof(std::uint16_t)), aligned(2), may_alias));

namespace detail {

// A bf16 value is the high half of a float. As shuffles, both directions are one AVX-512
// instruction; GCC 12 makes four of a conversion.
template <std::size_t... i>
[[gnu::always_inline]] inline Vector as_high_halves(HalfWords halves, std::index_sequence<i...>) {
  return reinterpret_cast<Vector>(
      __builtin_shufflevector(halves, HalfWords{}, (i % 2 == 0 ? lanes : i / 2)...));
}
template <std::size_t... i>
[[gnu::always_inline]] inline HalfWords high_halves(Words words, std::index_sequence<i...>) {
  using Halves = std::uint16_t __attribute__((vector_size(sizeof(Words))));
  const Halves halves = reinterpret_cast<Halves>(words);
  return __builtin_shufflevector(halves, halves, (2 * i + 1)...);
}

// The nearest bf16 in the high half; NaN stays NaN.
[[gnu::always_inline]] inline Words rounded_to_bf16(Vector value) {
  const Words words = reinterpret_cast<Words>(value);
  const Words rounded = words + 0x7fffU + ((words >> 16) & 1U);
  return value == value ? rounded : words | 0x400000U;
}

}  // namespace detail

[[gnu::always_inline]] inline Vector load_vector(const bf16* from) {
  const HalfWords halves = *reinterpret_cast<const HalfWords*>(from);
  return detail::as_high_halves(halves, std::make_index_sequence<2 * lanes>());
}
[[gnu::always_inline]] inline void store_vector(bf16* to, Vector value) {
  *reinterpret_cast<HalfWords*>(to) =
      detail::high_halves(detail::rounded_to_bf16(value), std::make_index_sequence<lanes>());
}
[[gnu::always_inline]] inline Vector load_vector(const f16* from) {
  const HalfWords halves = *reinterpret_cast<const HalfWords*>(from);
  const Words bits = __builtin_convertvector(halves, Words);
  const Words magnitude = bits & 0x7fffU;
  const Vector normal = reinterpret_cast<Vector>((magnitude << 13) + 0x70000000U) * 0x1p-112F;
  const Vector small = reinterpret_cast<Vector>(magnitude | 0x3f000000U) - 0.5F;
  const Words value =
      magnitude < 0x400U ? reinterpret_cast<Words>(small) : reinterpret_cast<Words>(normal);
  return reinterpret_cast<Vector>(value | (bits & 0x8000U) << 16);
}
[[gnu::always_inline]] inline void store_vector(f16* to, Vector value) {
  const Words word = reinterpret_cast<Words>(value);
  const Words magnitude = word & 0x7fffffffU;
  const Vector scaled = reinterpret_cast<Vector>(magnitude) * 0x1p+112F * 0x1p-110F;
  const Words exponent = word & 0x7f800000U;
  const Words bias = (exponent < 0x38800000U ? Words{} + 0x38800000U : exponent) + 0x07800000U;
  const Words rounded = reinterpret_cast<Words>(reinterpret_cast<Vector>(bias) + scaled);
  const Words half = ((rounded >> 13) & 0x7c00U) + (rounded & 0xfffU);
  const Words kept = magnitude > 0x7f800000U ? Words{} + 0x7e00U : half;
  *reinterpret_cast<HalfWords*>(to) =
      __builtin_convertvector(kept | ((word >> 16) & 0x8000U), HalfWords);
}

// 2 * lanes adjacent elements as two vectors, for element-wise maps, which need no order: for bf16
// the even and the odd ones, which saves three instructions.
struct VectorPair {
  Vector first;
  Vector second;
};
template <typename T>
[[gnu::always_inline]] inline VectorPair load_pair(const T* from) {
  return {load_vector(from), load_vector(from + lanes)};
}
template <typename T>
[[gnu::always_inline]] inline void store_pair(T* to, const VectorPair& values) {
  store_vector(to, values.first);
  store_vector(to + lanes, values.second);
}
using UnalignedWords =
    std::uint32_t __attribute__((vector_size(sizeof(Words)), aligned(2), may_alias));
[[gnu::always_inline]] inline VectorPair load_pair(const bf16* from) {
  const Words words = *reinterpret_cast<const UnalignedWords*>(from);
  return {reinterpret_cast<Vector>(words << 16), reinterpret_cast<Vector>(words & 0xffff0000U)};
}
[[gnu::always_inline]] inline void store_pair(bf16* to, const VectorPair& values) {
  *reinterpret_cast<UnalignedWords*>(to) = (detail::rounded_to_bf16(values.first) >> 16) |
                                           (detail::rounded_to_bf16(values.second) & 0xffff0000U);
}

[[gnu::always_inline]] inline Vector broadcast(float value) {
  return value - Vector{};
}
// Returns the second operand if they are unordered.
[[gnu::always_inline]] inline Vector maximum(Vector a, Vector b) {
  return a > b ? a : b;
}
[[gnu::always_inline]] inline Vector minimum(Vector a, Vector b) {
  return a < b ? a : b;
}

namespace detail {

// The lanes rotated by `by`.
template <std::size_t by, std::size_t... i>
[[gnu::always_inline]] inline Vector turned(Vector v, std::index_sequence<i...>) {
  return __builtin_shufflevector(v, v, ((i + by) % lanes)...);
}

}  // namespace detail

// Reduces over the lanes, pairwise in a fixed order: lane i takes lane i + half; lane 0 counts.
template <std::size_t half = lanes / 2>
[[gnu::always_inline]] inline float sum_of(Vector v) {
  v += detail::turned<half>(v, std::make_index_sequence<lanes>());
  if constexpr (half == 1)
    return v[0];
  else
    return sum_of<half / 2>(v);
}
template <std::size_t half = lanes / 2>
[[gnu::always_inline]] inline float maximum_of(Vector v) {
  v = maximum(v, detail::turned<half>(v, std::make_index_sequence<lanes>()));
  if constexpr (half == 1)
    return v[0];
  else
    return maximum_of<half / 2>(v);
}

// Transposes `lanes` rows of `lanes` values in place. Each of the log2(lanes) rounds interleaves
// row i with row i + lanes / 2.
[[gnu::always_inline]] inline void transpose(Vector (&rows)[lanes]) {
  using Integers = std::int32_t __attribute__((vector_size(lanes * sizeof(std::int32_t))));
  Integers low{}, high{};
#pragma GCC unroll 16
  for (int i = 0; i < lanes; ++i) {
    low[i] = i / 2 + (i % 2) * lanes;
    high[i] = low[i] + lanes / 2;
  }
#pragma GCC unroll 4
  for (int round = 1; round < lanes; round *= 2) {
    Vector next[lanes];
#pragma GCC unroll 8
    for (int i = 0; i < lanes / 2; ++i) {
      next[2 * i] = __builtin_shuffle(rows[i], rows[i + lanes / 2], low);
      next[2 * i + 1] = __builtin_shuffle(rows[i], rows[i + lanes / 2], high);
    }
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i)
      rows[i] = next[i];
  }
}

namespace detail {

// e^r * 2^n, where `shifted` = n + 1.5 * 2^23. vector_math_cpu.h describes the method.
[[gnu::always_inline]] inline Vector exp_scaled(Vector r, Vector shifted) {
  Vector q = broadcast(0x1.6a244cp-10F);
  q = q * r + 0x1.1239d4p-7F;
  q = q * r + 0x1.5558f2p-5F;
  q = q * r + 0x1.555492p-3F;
  q = q * r + 0x1.fffffcp-2F;
  const Vector value = (q * r) * r + r + 1.0F;
  const Words power = (reinterpret_cast<Words>(shifted) << 23) + 0x3f800000U;
  return value * reinterpret_cast<Vector>(power);
}

}  // namespace detail

// 2^x for x < 127.5 (unchecked); zero below 2^-126.5.
[[gnu::always_inline]] inline Vector exp2_vector(Vector x) {
  const Vector magic = broadcast(0x1.8p+23F);
  const Vector limited = maximum(broadcast(-127.0F), x);
  const Vector shifted = limited + magic;
  return detail::exp_scaled((limited - (shifted - magic)) * 0x1.62e430p-1F, shifted);
}

// e^x within the limits of fast_exp.
[[gnu::always_inline]] inline Vector exp_vector(Vector x) {
  const Vector magic = broadcast(0x1.8p+23F);
  const Vector limited = maximum(broadcast(-88.0F), minimum(broadcast(88.3762F), x));
  const Vector shifted = limited * 0x1.715476p+0F + magic;
  const Vector n = shifted - magic;
  return detail::exp_scaled((limited - n * 0x1.62e400p-1F) - n * 0x1.7f7d1cp-20F, shifted);
}

}  // namespace trireme::ops::cpu
