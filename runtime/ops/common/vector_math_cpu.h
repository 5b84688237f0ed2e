// SPDX-License-Identifier: Apache-2.0
// Private: exp and relatives without branches or calls, so loops around them vectorise. Maximum
// error about 1 ulp of float. NaN in, NaN out.
//
// exp(r) for |r| <= ln(2)/2 is 1 + r + r^2 q(r); q is the polynomial of degree 4 with the smallest
// maximum relative error of the result (3.1e-9), found by reweighted least squares.
#pragma once

#include <bit>
#include <cstdint>

namespace trireme::ops {

inline constexpr float ln2 = 0x1.62e430p-1F;
inline constexpr float log2_e = 0x1.715476p+0F;

namespace detail {

[[gnu::always_inline]] inline float exp_reduced(float r) {
  float q = 0x1.6a244cp-10F;
  q = q * r + 0x1.1239d4p-7F;
  q = q * r + 0x1.5558f2p-5F;
  q = q * r + 0x1.555492p-3F;
  q = q * r + 0x1.fffffcp-2F;
  return (q * r) * r + r + 1.0F;
}

// An integral float and 2 to its power, from the bits of x + 1.5 * 2^23: that sum has no fraction
// bits, so it rounds x to the nearest integer n, ties to even, and holds n in its lowest bits. For
// |x| < 127.5; n = -127 gives the power zero.
struct IntegerPower {
  float n;
  float power;
};
[[gnu::always_inline]] inline IntegerPower nearest_power(float x) {
  constexpr float magic = 0x1.8p+23F;
  const float shifted = x + magic;
  const std::uint32_t exponent = (std::bit_cast<std::uint32_t>(shifted) << 23) + 0x3f800000U;
  return {shifted - magic, std::bit_cast<float>(exponent)};
}

// Clamps; NaN passes.
[[gnu::always_inline]] inline float limit(float x, float low, float high) {
  const float below = x > high ? high : x;
  return below < low ? low : below;
}

}  // namespace detail

// e^x; underflows to zero below 2^-126, saturates at 2^127.5.
[[gnu::always_inline]] inline float fast_exp(float x) {
  // ln(2) in two parts: n * high is exact for all n that occur.
  constexpr float high = 0x1.62e400p-1F;
  constexpr float low = 0x1.7f7d1cp-20F;
  const float limited = detail::limit(x, -88.0F, 88.3762F);
  const auto [n, power] = detail::nearest_power(limited * log2_e);
  const float r = (limited - n * high) - n * low;
  return detail::exp_reduced(r) * power;
}

// 2^x; underflows to zero below 2^-126, saturates at 2^127.5.
[[gnu::always_inline]] inline float fast_exp2(float x) {
  const float limited = detail::limit(x, -127.0F, 127.499F);
  const auto [n, power] = detail::nearest_power(limited);
  return detail::exp_reduced((limited - n) * ln2) * power;
}

}  // namespace trireme::ops
