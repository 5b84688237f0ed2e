// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/float8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#if __has_include(<cuda_fp8.h>)
#include <cuda_fp8.h>
#define TRIREME_TEST_CUDA_FP8 1
#else
#define TRIREME_TEST_CUDA_FP8 0
#endif

namespace trireme {
namespace {

struct E4M3 {
  using Code = f8e4m3;
  static constexpr int mantissa = 3, bias = 7;
  static bool is_nan(unsigned code) { return (code & 0x7fU) == 0x7fU; }
  static bool is_infinite(unsigned /*code*/) { return false; }
};
struct E5M2 {
  using Code = f8e5m2;
  static constexpr int mantissa = 2, bias = 15;
  static bool is_nan(unsigned code) { return (code & 0x7fU) > 0x7cU; }
  static bool is_infinite(unsigned code) { return (code & 0x7fU) == 0x7cU; }
};

template <typename Format>
class Float8 : public ::testing::Test {
 protected:
  using Code = typename Format::Code;
  static Code code_of(unsigned bits) {
    Code code;
    code.bits = static_cast<std::uint8_t>(bits);
    return code;
  }
  // From the definition of the format.
  static double value_of(unsigned code) {
    const int exponent = static_cast<int>(code & 0x7fU) >> Format::mantissa;
    const int mantissa = static_cast<int>(code) & ((1 << Format::mantissa) - 1);
    const int lead = exponent == 0 ? 0 : 1 << Format::mantissa;
    const double magnitude =
        std::ldexp(lead + mantissa, std::max(exponent, 1) - Format::bias - Format::mantissa);
    return (code & 0x80U) != 0 ? -magnitude : magnitude;
  }
};
using Formats = ::testing::Types<E4M3, E5M2>;
TYPED_TEST_SUITE(Float8, Formats);

TYPED_TEST(Float8, EveryCodeHasTheValueOfItsDefinitionAndComesBack) {
  for (unsigned bits = 0; bits < 256; ++bits) {
    const auto value = static_cast<float>(TestFixture::code_of(bits));
    if (TypeParam::is_nan(bits)) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      continue;
    }
    if (TypeParam::is_infinite(bits)) {
      EXPECT_TRUE(std::isinf(value)) << bits;
      continue;
    }
    EXPECT_EQ(value, TestFixture::value_of(bits)) << bits;
    EXPECT_EQ(std::signbit(value), bits >= 128) << bits;
    EXPECT_EQ(typename TypeParam::Code(value).bits, bits);
  }
}

TYPED_TEST(Float8, RoundsToTheNearestCodeAndTiesToEven) {
  using Code = typename TypeParam::Code;
  for (unsigned bits = 0; TestFixture::value_of(bits) < Code::largest; ++bits) {
    const double low = TestFixture::value_of(bits), high = TestFixture::value_of(bits + 1);
    const auto middle = static_cast<float>((low + high) / 2);
    EXPECT_EQ(Code(std::nextafter(middle, 0.0F)).bits, bits);
    EXPECT_EQ(Code(std::nextafter(middle, 1e30F)).bits, bits + 1);
    EXPECT_EQ(Code(middle).bits, bits + (bits & 1U));
    EXPECT_EQ(Code(-middle).bits, 0x80U + bits + (bits & 1U));
  }
}

TYPED_TEST(Float8, SaturatesAndKeepsNaN) {
  using Code = typename TypeParam::Code;
  const float infinity = std::numeric_limits<float>::infinity();

  for (const float huge : {Code::largest, 1.2F * Code::largest, 1e30F, infinity}) {
    EXPECT_EQ(static_cast<float>(Code(huge)), Code::largest);
    EXPECT_EQ(static_cast<float>(Code(-huge)), -Code::largest);
  }
  EXPECT_EQ(Code(std::nanf("")).bits, 0x7f);
  EXPECT_EQ(Code(1e-30F).bits, 0);
  EXPECT_EQ(Code(-1e-30F).bits, 0x80);
}

#if TRIREME_TEST_CUDA_FP8
template <typename Code>
void expect_as_cuda(__nv_fp8_interpretation_t format) {
  for (std::uint64_t word = 0; word <= 0xffffffffU; word += 0x1fff) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(word));
    ASSERT_EQ(Code(value).bits, __nv_cvt_float_to_fp8(value, __NV_SATFINITE, format)) << value;
  }
  for (unsigned bits = 0; bits < 256; ++bits) {
    Code code;
    code.bits = static_cast<std::uint8_t>(bits);
    f16 half;
    half.bits = __nv_cvt_fp8_to_halfraw(code.bits, format).x;
    const auto ours = static_cast<float>(code), theirs = static_cast<float>(half);
    ASSERT_TRUE(ours == theirs || (std::isnan(ours) && std::isnan(theirs))) << bits;
  }
}

TEST(Float8Header, AgreesWithTheConversionsOfCuda) {
  expect_as_cuda<f8e4m3>(__NV_E4M3);
  expect_as_cuda<f8e5m2>(__NV_E5M2);
}
#endif

}  // namespace
}  // namespace trireme
