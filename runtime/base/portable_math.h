// SPDX-License-Identifier: Apache-2.0
// Box-Muller in double with our own logarithm, sine and cosine, built only from additions,
// products, divisions, square roots and explicit fused multiply-adds: IEEE 754 fixes all of these,
// so the bits are equal on every machine, compiler and back end (those of libm are not).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "runtime/base/philox.h"

namespace trireme {

// ln(x) for normal x > 0: x = 2^k m with m in [sqrt(1/2), sqrt(2)), ln m = 2 atanh((m - 1) / (m +
// 1)) by its Taylor series. Within 2 ulp.
TRIREME_HOST_DEVICE inline double portable_log(double x) {
  constexpr std::uint64_t sqrt_half = 0x3FE6A09E667F3BCDULL;
  const std::uint64_t shifted =
      std::bit_cast<std::uint64_t>(x) + (0x3FF0000000000000ULL - sqrt_half);
  const std::uint64_t exponent = shifted >> 52;  // biased by 1023
  const double m = std::bit_cast<double>((shifted & 0x000FFFFFFFFFFFFFULL) + sqrt_half);
  // 2^52 + exponent, an integer conversion that also vectorises.
  const double k = std::bit_cast<double>(0x4330000000000000ULL | exponent) - 4503599627371519.0;
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double series = 2.0 / 21.0;
  series = std::fma(series, z, 2.0 / 19.0);
  series = std::fma(series, z, 2.0 / 17.0);
  series = std::fma(series, z, 2.0 / 15.0);
  series = std::fma(series, z, 2.0 / 13.0);
  series = std::fma(series, z, 2.0 / 11.0);
  series = std::fma(series, z, 2.0 / 9.0);
  series = std::fma(series, z, 2.0 / 7.0);
  series = std::fma(series, z, 2.0 / 5.0);
  series = std::fma(series, z, 2.0 / 3.0);
  series = std::fma(series, z, 2.0);
  return std::fma(k, 0.6931471805599453, s * series);
}

struct SineCosine {
  double sine, cosine;
};

// sin and cos of 2 pi u, |u| < 2^49: u is reduced exactly to within an eighth of a turn, then
// Taylor.
TRIREME_HOST_DEVICE inline SineCosine portable_sine_cosine(double u) {
  constexpr double round_to_integer = 6755399441055744.0;  // 1.5 * 2^52
  const double shifted = std::fma(u, 4.0, round_to_integer);
  const std::uint64_t quarter = std::bit_cast<std::uint64_t>(shifted);
  const double angle = std::fma(shifted - round_to_integer, -0.25, u) * 6.283185307179586;
  const double z = angle * angle;
  double s = 1.0 / 355687428096000.0;
  s = std::fma(s, z, -1.0 / 1307674368000.0);
  s = std::fma(s, z, 1.0 / 6227020800.0);
  s = std::fma(s, z, -1.0 / 39916800.0);
  s = std::fma(s, z, 1.0 / 362880.0);
  s = std::fma(s, z, -1.0 / 5040.0);
  s = std::fma(s, z, 1.0 / 120.0);
  s = std::fma(s, z, -1.0 / 6.0);
  s = std::fma(s * z, angle, angle);
  double c = 1.0 / 20922789888000.0;
  c = std::fma(c, z, -1.0 / 87178291200.0);
  c = std::fma(c, z, 1.0 / 479001600.0);
  c = std::fma(c, z, -1.0 / 3628800.0);
  c = std::fma(c, z, 1.0 / 40320.0);
  c = std::fma(c, z, -1.0 / 720.0);
  c = std::fma(c, z, 1.0 / 24.0);
  c = std::fma(c, z, -0.5);
  c = std::fma(c, z, 1.0);
  const bool swapped = (quarter & 1U) != 0;
  const double sine = swapped ? c : s;
  const double cosine = swapped ? s : c;
  return {(quarter & 2U) != 0 ? -sine : sine, ((quarter + 1U) & 2U) != 0 ? -cosine : cosine};
}

// 2^-(a b) for 0 <= a b < 1000: the integer part is the exponent, the rest e^(f ln 2) by Taylor.
TRIREME_HOST_DEVICE inline double portable_inverse_power(double a, double b) {
  constexpr double round_to_integer = 6755399441055744.0;  // 1.5 * 2^52
  const double shifted = std::fma(a, b, round_to_integer);
  const std::uint64_t whole = std::bit_cast<std::uint64_t>(shifted) & 0xFFFFU;
  const double f = std::fma(-a, b, shifted - round_to_integer) * 0.6931471805599453;
  double series = 1.0 / 6227020800.0;
  series = std::fma(series, f, 1.0 / 479001600.0);
  series = std::fma(series, f, 1.0 / 39916800.0);
  series = std::fma(series, f, 1.0 / 3628800.0);
  series = std::fma(series, f, 1.0 / 362880.0);
  series = std::fma(series, f, 1.0 / 40320.0);
  series = std::fma(series, f, 1.0 / 5040.0);
  series = std::fma(series, f, 1.0 / 720.0);
  series = std::fma(series, f, 1.0 / 120.0);
  series = std::fma(series, f, 1.0 / 24.0);
  series = std::fma(series, f, 1.0 / 6.0);
  series = std::fma(series, f, 0.5);
  series = std::fma(series, f, 1.0);
  series = std::fma(series, f, 1.0);
  return series * std::bit_cast<double>((1023 - whole) << 52);
}

// Element (position, column) of fill_sinusoid.
TRIREME_HOST_DEVICE inline float sinusoid(std::int64_t position, std::int64_t column,
                                          std::int64_t width, float amplitude) {
  constexpr double log2_10000 = 13.287712379549449;
  constexpr double inverse_turn = 0.15915494309189535;  // 1 / (2 pi)
  const double exponent = static_cast<double>(column - column % 2) / static_cast<double>(width);
  const double frequency = portable_inverse_power(exponent, log2_10000) * inverse_turn;
  const SineCosine wave = portable_sine_cosine(static_cast<double>(position) * frequency);
  return static_cast<float>(static_cast<double>(amplitude) *
                            (column % 2 == 0 ? wave.sine : wave.cosine));
}

struct NormalPair {
  double first, second;
};

// Two independent standard normals from four random words.
TRIREME_HOST_DEVICE inline NormalPair box_muller(std::uint32_t w0, std::uint32_t w1,
                                                 std::uint32_t w2, std::uint32_t w3) {
  constexpr std::uint64_t one = 0x3FF0000000000000ULL;
  const std::uint64_t bits1 = (static_cast<std::uint64_t>(w0) << 32) | w1;
  const std::uint64_t bits2 = (static_cast<std::uint64_t>(w2) << 32) | w3;
  const double u1 = 2.0 - std::bit_cast<double>((bits1 >> 12) | one);  // (0, 1]: its log is finite
  const double u2 = std::bit_cast<double>((bits2 >> 12) | one) - 1.0;  // [0, 1)
  const double radius = std::sqrt(-2.0 * portable_log(u1));
  const SineCosine direction = portable_sine_cosine(u2);
  return {radius * direction.cosine, radius * direction.sine};
}

}  // namespace trireme
