// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/host/reduce.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "runtime/base/philox.h"

namespace trireme {
namespace {

template <typename T>
std::vector<T> reduced(DType dtype, ReduceOp op, const std::vector<std::vector<T>>& inputs,
                       std::size_t doubled = 0) {
  std::vector<const std::byte*> pointers;
  for (const auto& input : inputs) {
    pointers.push_back(reinterpret_cast<const std::byte*>(input.data()));
  }
  std::vector<T> out(inputs[0].size());
  reduce_tree(dtype, op, pointers, reinterpret_cast<std::byte*>(out.data()),
              static_cast<std::int64_t>(out.size()), doubled);
  return out;
}

std::vector<std::vector<float>> random_inputs(std::size_t number, std::size_t count) {
  const Philox random = Philox::keyed(1, RandomPurpose::test);
  std::vector<std::vector<float>> inputs(number, std::vector<float>(count));
  for (std::size_t n = 0; n < number; ++n) {
    for (std::size_t i = 0; i < count; ++i) {
      inputs[n][i] = Philox::uniform(random(n, i)[0]) - 0.3F;
    }
  }
  return inputs;
}

TEST(ReduceTree, CombinesAsABalancedTreeOverTheRank) {
  const auto in = random_inputs(7, 2500);

  const auto out = reduced(DType::f32, ReduceOp::sum, in);

  for (std::size_t i = 0; i < out.size(); ++i) {
    const float left = (in[0][i] + in[1][i]) + (in[2][i] + in[3][i]);
    const float right = (in[4][i] + in[5][i]) + in[6][i];
    ASSERT_EQ(std::bit_cast<std::uint32_t>(out[i]), std::bit_cast<std::uint32_t>(left + right));
  }
}

TEST(ReduceTree, TheTreeOfFourIsThatOfTwoHalves) {
  const auto in = random_inputs(4, 333);

  const auto halves = std::vector{reduced<float>(DType::f32, ReduceOp::sum, {in[0], in[1]}),
                                  reduced<float>(DType::f32, ReduceOp::sum, {in[2], in[3]})};

  EXPECT_EQ(reduced(DType::f32, ReduceOp::sum, in), reduced(DType::f32, ReduceOp::sum, halves));
}

TEST(ReduceTree, DoubledInputsAreTwoLeaves) {
  const auto in = random_inputs(11, 333);
  for (std::size_t leaves = 3; leaves <= in.size(); ++leaves) {
    const std::vector all(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(leaves));
    const auto whole = reduced(DType::f32, ReduceOp::sum, all);
    for (std::size_t doubled = 1; 2 * doubled < leaves; ++doubled) {
      std::vector<std::vector<float>> some;
      for (std::size_t i = 0; i < doubled; ++i)
        some.push_back(reduced<float>(DType::f32, ReduceOp::sum, {all[2 * i], all[2 * i + 1]}));
      some.insert(some.end(), all.begin() + static_cast<std::ptrdiff_t>(2 * doubled), all.end());

      EXPECT_EQ(reduced(DType::f32, ReduceOp::sum, some, doubled), whole)
          << doubled << " of " << leaves;
    }
  }
}

TEST(ReduceTree, Bf16SumsInFp32AndRoundsOnce) {
  // 256 + 1 is not a bf16 number; summed in bf16 the ones would vanish.
  const std::vector<std::vector<bf16>> in = {{bf16(256.0F)}, {bf16(1.0F)}, {bf16(1.0F)}};

  EXPECT_EQ(static_cast<float>(reduced(DType::bf16, ReduceOp::sum, in)[0]), 258.0F);
}

TEST(ReduceTree, F16SumsInFp32AndRoundsOnce) {
  const std::vector<std::vector<f16>> in = {{f16(2048.0F)}, {f16(1.0F)}, {f16(1.0F)}};

  EXPECT_EQ(static_cast<float>(reduced(DType::f16, ReduceOp::sum, in)[0]), 2050.0F);
}

TEST(ReduceTree, IntegersWrapAroundAndCompareWithTheirSign) {
  const std::vector<std::vector<std::int32_t>> in = {{std::numeric_limits<std::int32_t>::max(), -5},
                                                     {1, 3}};

  EXPECT_EQ(reduced(DType::i32, ReduceOp::sum, in)[0], std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(reduced(DType::i32, ReduceOp::max, in)[1], 3);
  EXPECT_EQ(reduced(DType::i32, ReduceOp::min, in)[1], -5);
}

TEST(ReduceTree, ANaNIsNeverLost) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
    const std::vector<std::vector<float>> in = {
        {nan, 1.0F, 2.0F}, {1.0F, nan, 2.0F}, {3.0F, 3.0F, nan}};
    for (const float value : reduced(DType::f32, op, in))
      EXPECT_TRUE(std::isnan(value));
  }
}

TEST(ReduceTree, TheOutputMayBeAnInput) {
  auto in = random_inputs(3, 1500);
  const auto expected = reduced(DType::f32, ReduceOp::sum, in);
  std::vector<const std::byte*> pointers;
  for (const auto& input : in)
    pointers.push_back(reinterpret_cast<const std::byte*>(input.data()));

  reduce_tree(DType::f32, ReduceOp::sum, pointers, reinterpret_cast<std::byte*>(in[1].data()),
              1500);

  EXPECT_EQ(in[1], expected);
}

}  // namespace
}  // namespace trireme
