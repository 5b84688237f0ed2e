// SPDX-License-Identifier: Apache-2.0
// 8-bit floats (Micikevicius et al., "FP8 formats for deep learning", 2022) of tensor cores. Host
// and device code. Conversion rounds to nearest even and saturates, infinity too; NaN becomes 0x7f,
// like __nv_cvt_float_to_fp8 with __NV_SATFINITE.
#pragma once

#include <bit>
#include <cstdint>

#include "runtime/base/dtype.h"

namespace trireme {
namespace detail {

// Mantissa bits, exponent bias, and the largest finite value. Branch-free like f16.
template <int mantissa, int bias>
TRIREME_HOST_DEVICE inline std::uint8_t to_float8(float value, float largest) {
  constexpr int shift = 23 - mantissa;
  constexpr std::uint32_t smallest_normal = static_cast<std::uint32_t>(128 - bias) << 23;
  // Its last bit has the weight of a subnormal code's last bit.
  constexpr std::uint32_t magic = static_cast<std::uint32_t>(128 - bias + shift) << 23;
  const auto word = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t given = word & 0x7fffffffU;
  const auto limit = std::bit_cast<std::uint32_t>(largest);
  const std::uint32_t bits = given < limit ? given : limit;
  const std::uint32_t rounded = bits + ((1U << (shift - 1)) - 1U) + ((bits >> shift) & 1U);
  const std::uint32_t normal =
      (rounded >> shift) - (static_cast<std::uint32_t>(127 - bias) << mantissa);
  const std::uint32_t small =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(bits) + std::bit_cast<float>(magic)) -
      magic;
  const std::uint32_t code = bits < smallest_normal ? small : normal;
  return static_cast<std::uint8_t>(given > 0x7f800000U ? 0x7fU : (code | ((word >> 24) & 0x80U)));
}

}  // namespace detail

// 4 exponent and 3 mantissa bits, no infinity: activations and weights.
struct f8e4m3 {
  static constexpr float largest = 448.0F;
  std::uint8_t bits = 0;

  f8e4m3() = default;
  TRIREME_HOST_DEVICE explicit f8e4m3(float value)
      : bits(detail::to_float8<3, 7>(value, largest)) {}
  TRIREME_HOST_DEVICE explicit operator float() const {
    const std::uint32_t magnitude = bits & 0x7fU;
    const float value = std::bit_cast<float>(magnitude << 20) * 0x1p+120F;
    const std::uint32_t word =
        magnitude == 0x7fU ? 0x7fc00000U : std::bit_cast<std::uint32_t>(value);
    return std::bit_cast<float>(word | (static_cast<std::uint32_t>(bits & 0x80U) << 24));
  }
};

// 5 exponent and 2 mantissa bits, the upper half of an f16: gradients.
struct f8e5m2 {
  static constexpr float largest = 57344.0F;
  std::uint8_t bits = 0;

  f8e5m2() = default;
  TRIREME_HOST_DEVICE explicit f8e5m2(float value)
      : bits(detail::to_float8<2, 15>(value, largest)) {}
  TRIREME_HOST_DEVICE explicit operator float() const {
    f16 half;
    half.bits = static_cast<std::uint16_t>(bits << 8);
    return static_cast<float>(half);
  }
};
static_assert(sizeof(f8e4m3) == 1 && sizeof(f8e5m2) == 1);

template <>
inline constexpr DType dtype_of<f8e4m3> = DType::f8e4m3;
template <>
inline constexpr DType dtype_of<f8e5m2> = DType::f8e5m2;

}  // namespace trireme
