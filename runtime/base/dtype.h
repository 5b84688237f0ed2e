// SPDX-License-Identifier: Apache-2.0
// Element types, and the 16-bit floats: host and device code.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runtime/base/host_device.h"

namespace trireme {

enum class DType : std::uint8_t {
  f32,
  f64,
  bf16,
  f16,
  u8,
  u16,
  u32,
  u64,
  i32,
  i64,
  f8e4m3,
  f8e5m2
};

[[nodiscard]] constexpr std::size_t size_of(DType type) {
  switch (type) {
    case DType::u8:
    case DType::f8e4m3:
    case DType::f8e5m2:
      return 1;
    case DType::bf16:
    case DType::f16:
    case DType::u16:
      return 2;
    case DType::f32:
    case DType::u32:
    case DType::i32:
      return 4;
    case DType::f64:
    case DType::u64:
    case DType::i64:
      return 8;
  }
  return 0;
}

// The spelling in messages and files: "f32", "bf16", ...
[[nodiscard]] std::string_view name_of(DType type);

// bfloat16 (upper half of an IEEE float). Conversion rounds to nearest even and keeps NaN a NaN.
struct bf16 {
  std::uint16_t bits = 0;

  bf16() = default;
  TRIREME_HOST_DEVICE explicit bf16(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (word + 0x7fffU + ((word >> 16) & 1U)) >> 16;
    const std::uint32_t quiet_nan = (word >> 16) | 0x40U;
    bits = static_cast<std::uint16_t>((word & 0x7fffffffU) > 0x7f800000U ? quiet_nan : rounded);
  }
  TRIREME_HOST_DEVICE explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};
static_assert(sizeof(bf16) == 2);

// IEEE half precision. Conversion rounds to nearest even, overflows to infinity and keeps NaN a
// NaN. Branch-free, so loops over it vectorise; powers of two scale exactly, so contraction to fma
// changes nothing.
struct f16 {
  std::uint16_t bits = 0;

  f16() = default;
  TRIREME_HOST_DEVICE explicit f16(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = word & 0x7fffffffU;
    // Adding 2^(e + 13) to a value of exponent e leaves 10 fraction bits; below the normal halves
    // the exponent, and so the place of the last bit, is fixed. The first factor maps all from 2^16
    // up to infinity.
    const float scaled = std::bit_cast<float>(magnitude) * 0x1p+112F * 0x1p-110F;
    const std::uint32_t exponent = word & 0x7f800000U;
    const std::uint32_t bias = (exponent < 0x38800000U ? 0x38800000U : exponent) + 0x07800000U;
    const auto rounded = std::bit_cast<std::uint32_t>(std::bit_cast<float>(bias) + scaled);
    const std::uint32_t half = ((rounded >> 13) & 0x7c00U) + (rounded & 0xfffU);
    bits = static_cast<std::uint16_t>(((word >> 16) & 0x8000U) |
                                      (magnitude > 0x7f800000U ? 0x7e00U : half));
  }
  TRIREME_HOST_DEVICE explicit operator float() const {
    const std::uint32_t magnitude = bits & 0x7fffU;
    // Raises the exponent by 224, then lowers it by a multiplication, which keeps infinity and NaN.
    const float normal = std::bit_cast<float>((magnitude << 13) + 0x70000000U) * 0x1p-112F;
    const float small = std::bit_cast<float>(magnitude | 0x3f000000U) - 0.5F;
    const auto value = std::bit_cast<std::uint32_t>(magnitude < 0x400U ? small : normal);
    return std::bit_cast<float>(value | (static_cast<std::uint32_t>(bits & 0x8000U) << 16));
  }
};
static_assert(sizeof(f16) == 2);

template <typename T>
inline constexpr DType dtype_of = [] {
  static_assert(sizeof(T) == 0, "no DType for this C++ type");
  return DType::u8;
}();
template <>
inline constexpr DType dtype_of<float> = DType::f32;
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<bf16> = DType::bf16;
template <>
inline constexpr DType dtype_of<f16> = DType::f16;
template <>
inline constexpr DType dtype_of<std::uint8_t> = DType::u8;
template <>
inline constexpr DType dtype_of<std::uint16_t> = DType::u16;
template <>
inline constexpr DType dtype_of<std::uint32_t> = DType::u32;
template <>
inline constexpr DType dtype_of<std::uint64_t> = DType::u64;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<std::int64_t> = DType::i64;

}  // namespace trireme
