// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/common/vector_math_cpu.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "runtime/ops/common/simd_cpu.h"

namespace trireme::ops {
namespace {

double units_in_last_place(float actual, double expected) {
  const auto rounded = static_cast<float>(expected);
  const double unit = std::nextafter(rounded, std::numeric_limits<float>::infinity()) - rounded;
  return std::abs(static_cast<double>(actual) - expected) / unit;
}

TEST(VectorMath, ExpIsWithinAboutOneUnitInTheLastPlaceInBothForms) {
  for (double x = -87.3; x < 88.37; x += 1.1e-4) {
    const auto value = static_cast<float>(x);
    const double expected = std::exp(static_cast<double>(value));
    ASSERT_LE(units_in_last_place(fast_exp(value), expected), 1.1) << value;
    ASSERT_LE(units_in_last_place(cpu::exp_vector(cpu::broadcast(value))[0], expected), 1.1)
        << value;
  }
}

TEST(VectorMath, Exp2IsWithinAboutOneUnitInTheLastPlaceInBothForms) {
  for (double x = -125.9; x < 127.4; x += 1.3e-4) {
    const auto value = static_cast<float>(x);
    const double expected = std::exp2(static_cast<double>(value));
    ASSERT_LE(units_in_last_place(fast_exp2(value), expected), 1.1) << value;
    const cpu::Vector vector = cpu::exp2_vector(cpu::broadcast(value));
    ASSERT_LE(units_in_last_place(vector[0], expected), 1.1) << value;
  }
}

TEST(VectorMath, ExpHasLimitsAtTheEnds) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(fast_exp(-infinity), 0.0F);
  EXPECT_EQ(fast_exp(-1e30F), 0.0F);
  EXPECT_EQ(fast_exp2(-infinity), 0.0F);
  EXPECT_EQ(cpu::exp2_vector(cpu::broadcast(-infinity))[0], 0.0F);
  EXPECT_GT(fast_exp(infinity), 2e38F);
  EXPECT_TRUE(std::isfinite(fast_exp(infinity)));
  EXPECT_EQ(cpu::exp_vector(cpu::broadcast(-infinity))[0], 0.0F);
  EXPECT_EQ(cpu::exp_vector(cpu::broadcast(infinity))[0], fast_exp(infinity));
  EXPECT_TRUE(std::isnan(cpu::exp_vector(cpu::broadcast(std::nanf("")))[0]));
  EXPECT_TRUE(std::isnan(fast_exp(std::nanf(""))));
  EXPECT_TRUE(std::isnan(cpu::exp2_vector(cpu::broadcast(std::nanf("")))[0]));
}

TEST(VectorMath, LaneSumsAndMaximaSeeEveryLane) {
  for (int lane = 0; lane < cpu::lanes; ++lane) {
    cpu::Vector v = cpu::broadcast(-1.0F);
    v[lane] = 5.0F;
    EXPECT_EQ(cpu::maximum_of(v), 5.0F);
    EXPECT_EQ(cpu::sum_of(v), 5.0F - static_cast<float>(cpu::lanes - 1));
  }
}

template <typename T>
class Narrow : public ::testing::Test {};
using NarrowTypes = ::testing::Types<bf16, f16>;
TYPED_TEST_SUITE(Narrow, NarrowTypes);

TYPED_TEST(Narrow, PairsOfVectorsKeepEveryElementAtItsPlace) {
  constexpr std::uint32_t count = 2 * cpu::lanes;
  for (std::uint32_t step = 0; step < 70000; step += count) {
    TypeParam from[count], to[count];
    for (std::uint32_t i = 0; i < count; ++i)
      from[i] = TypeParam(std::bit_cast<float>((step + i) * 61357U));
    const cpu::VectorPair pair = cpu::load_pair(from);
    cpu::store_pair(to, {-pair.first, -pair.second});
    for (std::uint32_t i = 0; i < count; ++i) {
      const float expected = -static_cast<float>(from[i]);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(static_cast<float>(to[i]))) << step + i;
      } else {
        EXPECT_EQ(static_cast<float>(to[i]), expected) << step + i;
      }
    }
  }
}

TYPED_TEST(Narrow, VectorsLoadAndStoreAsTheScalarTypeDoes) {
  for (std::uint32_t step = 0; step < 70000; ++step) {
    const auto value = std::bit_cast<float>(step * 61357U);
    TypeParam stored[cpu::lanes];
    cpu::store_vector(stored, cpu::broadcast(0.0F) + value);
    const TypeParam expected(value);
    ASSERT_EQ(stored[cpu::lanes - 1].bits, expected.bits) << value;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(float(cpu::load_vector(stored)[0])),
              std::bit_cast<std::uint32_t>(static_cast<float>(expected)));
  }
}

}  // namespace
}  // namespace trireme::ops
