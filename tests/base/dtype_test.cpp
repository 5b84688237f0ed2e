// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>

namespace trireme {
namespace {

float round_trip(float value) {
  return static_cast<float>(bf16(value));
}

std::uint16_t bits_of(std::uint32_t float_bits) {
  return bf16(std::bit_cast<float>(float_bits)).bits;
}

TEST(DType, HasASizeAndADistinctNameForEveryType) {
  std::set<std::string_view> names;
  for (const DType type :
       {DType::f32, DType::f64, DType::bf16, DType::f16, DType::u8, DType::u16, DType::u32,
        DType::u64, DType::i32, DType::i64, DType::f8e4m3, DType::f8e5m2}) {
    names.insert(name_of(type));
    EXPECT_GT(size_of(type), 0U) << name_of(type);
  }

  EXPECT_EQ(names.size(), 12U);
  EXPECT_FALSE(names.contains("unknown"));
}

TEST(DType, SizesAreThoseOfTheCppTypes) {
  EXPECT_EQ(size_of(dtype_of<float>), sizeof(float));
  EXPECT_EQ(size_of(dtype_of<double>), sizeof(double));
  EXPECT_EQ(size_of(dtype_of<bf16>), sizeof(bf16));
  EXPECT_EQ(size_of(dtype_of<f16>), sizeof(f16));
  EXPECT_EQ(size_of(dtype_of<std::uint8_t>), 1U);
  EXPECT_EQ(size_of(dtype_of<std::uint16_t>), 2U);
  EXPECT_EQ(size_of(dtype_of<std::uint32_t>), 4U);
  EXPECT_EQ(size_of(dtype_of<std::uint64_t>), 8U);
  EXPECT_EQ(size_of(dtype_of<std::int32_t>), 4U);
  EXPECT_EQ(size_of(dtype_of<std::int64_t>), 8U);
}

TEST(Bf16, KeepsEveryValueItCanHold) {
  for (std::uint32_t pattern = 0; pattern <= 0xffffU; ++pattern) {
    const float exact = std::bit_cast<float>(pattern << 16);
    if (std::isnan(exact)) continue;
    ASSERT_EQ(bf16(exact).bits, pattern);
  }
}

TEST(Bf16, RoundsToNearest) {
  EXPECT_EQ(bits_of(0x3f807fffU), 0x3f80U);  // just below the midpoint
  EXPECT_EQ(bits_of(0x3f808001U), 0x3f81U);  // just above
  EXPECT_EQ(bits_of(0xbf808001U), 0xbf81U);  // away from zero for negative numbers too
}

TEST(Bf16, RoundsTiesToEven) {
  EXPECT_EQ(bits_of(0x3f808000U), 0x3f80U);
  EXPECT_EQ(bits_of(0x3f818000U), 0x3f82U);
  EXPECT_EQ(bits_of(0xbf818000U), 0xbf82U);
}

TEST(Bf16, CarriesIntoTheExponentWhenRoundingUp) {
  EXPECT_EQ(round_trip(1.9999999F), 2.0F);
}

TEST(Bf16, OverflowsToInfinityWhenRoundingUpTheLargestFloat) {
  EXPECT_EQ(round_trip(std::numeric_limits<float>::max()), std::numeric_limits<float>::infinity());
  EXPECT_EQ(round_trip(-std::numeric_limits<float>::max()),
            -std::numeric_limits<float>::infinity());
}

TEST(Bf16, KeepsInfinityAndTheSignOfZero) {
  const float infinity = std::numeric_limits<float>::infinity();

  EXPECT_EQ(round_trip(infinity), infinity);
  EXPECT_EQ(round_trip(-infinity), -infinity);
  EXPECT_FALSE(std::signbit(round_trip(0.0F)));
  EXPECT_TRUE(std::signbit(round_trip(-0.0F)));
}

// Truncation would turn a NaN with a payload in the lower half into infinity, and rounding would
// wrap the all-ones NaN to zero.
TEST(Bf16, KeepsNaNWhateverItsPayload) {
  for (const std::uint32_t pattern :
       {0x7f800001U, 0x7f80ffffU, 0x7fc00000U, 0x7fffffffU, 0xff800001U, 0xffffffffU}) {
    const bf16 converted(std::bit_cast<float>(pattern));
    EXPECT_TRUE(std::isnan(static_cast<float>(converted))) << std::hex << pattern;
    EXPECT_EQ(converted.bits >> 15, pattern >> 31) << "the sign of " << std::hex << pattern;
  }
}

TEST(Bf16, RoundsDenormals) {
  EXPECT_EQ(bits_of(0x00008000U), 0x0000U);  // tie, to even
  EXPECT_EQ(bits_of(0x00008001U), 0x0001U);
  EXPECT_EQ(bits_of(0x007fffffU), 0x0080U);  // the largest denormal becomes the smallest normal
}

// The reference is the compiler's half type: every half, and every float next to a rounding
// boundary.
TEST(F16, ConvertsAsTheCompilersHalfDoes) {
  for (std::uint32_t pattern = 0; pattern <= 0xffffU; ++pattern) {
    const auto reference = std::bit_cast<_Float16>(static_cast<std::uint16_t>(pattern));
    f16 half;
    half.bits = static_cast<std::uint16_t>(pattern);
    const auto wide = static_cast<float>(half);
    if (reference != reference) {
      ASSERT_TRUE(std::isnan(wide) && (f16(wide).bits & 0x7fffU) > 0x7c00U) << pattern;
      continue;
    }
    ASSERT_EQ(std::bit_cast<std::uint32_t>(wide),
              std::bit_cast<std::uint32_t>(static_cast<float>(reference)));
    ASSERT_EQ(f16(wide).bits, pattern);
    // The midpoint to the next normal half is 2^12 floats away; for subnormal halves it differs.
    const auto word = std::bit_cast<std::uint32_t>(wide);
    const float next = static_cast<float>(
        std::bit_cast<_Float16>(static_cast<std::uint16_t>((pattern + 1) & 0xffffU)));
    const auto middle = std::bit_cast<std::uint32_t>((wide + next) / 2);
    for (const std::uint32_t near : {word + 1, word + 0xfffU, middle - 1, middle, middle + 1}) {
      const auto value = std::bit_cast<float>(near);
      if (std::isnan(value)) continue;
      ASSERT_EQ(f16(value).bits, std::bit_cast<std::uint16_t>(static_cast<_Float16>(value)))
          << std::hex << near;
    }
  }
}

TEST(F16, OverflowsToInfinityAndKeepsNaN) {
  const float infinity = std::numeric_limits<float>::infinity();

  EXPECT_EQ(static_cast<float>(f16(65519.0F)), 65504.0F);
  EXPECT_EQ(static_cast<float>(f16(65520.0F)), infinity);
  EXPECT_EQ(static_cast<float>(f16(-std::numeric_limits<float>::max())), -infinity);
  EXPECT_EQ(static_cast<float>(f16(infinity)), infinity);
  for (const std::uint32_t pattern : {0x7f800001U, 0x7fffffffU, 0xff800001U})
    EXPECT_TRUE(std::isnan(static_cast<float>(f16(std::bit_cast<float>(pattern))))) << pattern;
}

}  // namespace
}  // namespace trireme
