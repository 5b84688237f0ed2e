// SPDX-License-Identifier: Apache-2.0
// Tree sums of blocks, and additions apart from a product.
#include "runtime/ops/update/block_sum.h"

#include "runtime/ops/elementwise/elementwise.h"
#include "runtime/ops/gemm/linear.h"
#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;
using Values = std::vector<double>;

class BlockSum : public ::testing::TestWithParam<DType> {};
class Bias : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, BlockSum,
                         ::testing::Values(DType::f32, DType::bf16, DType::f16, DType::f64),
                         dtype_label);
INSTANTIATE_TEST_SUITE_P(Types, Bias, ::testing::Values(DType::f32, DType::bf16, DType::f16),
                         dtype_label);

// The tree by definition: one function of two numbers at each node.
template <typename A>
A tree(const Values& x, std::size_t first, std::size_t number, std::size_t size, std::size_t at) {
  if (number == 1) return static_cast<A>(x[first * size + at]);
  std::size_t half = 1;
  while (2 * half < number)
    half *= 2;
  return tree<A>(x, first, half, size, at) + tree<A>(x, first + half, number - half, size, at);
}

TEST_P(BlockSum, FollowsTheBalancedTree) {
  const DType result = GetParam();
  for (const DType input : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    if ((input == DType::f64) != (result == DType::f64)) continue;
    for (const std::int64_t blocks : {1, 2, 3, 5, 8, 11}) {
      for (const std::int64_t size : {1, 7, 2100}) {
        const GuardedTensor x = random_tensor(input, {blocks, size}, 1, -100.0, 100.0);
        const GuardedTensor y(result, {size});
        const Values values = x.get();
        Values expected(static_cast<std::size_t>(size));
        for (std::size_t i = 0; i < expected.size(); ++i) {
          const auto n = static_cast<std::size_t>(blocks);
          expected[i] = result == DType::f64
                            ? tree<double>(values, 0, n, expected.size(), i)
                            : static_cast<double>(tree<float>(values, 0, n, expected.size(), i));
        }

        ops::sum_blocks(stream(), y, x);

        EXPECT_EQ(y.get(), GuardedTensor(result, {size}, expected).get());
      }
    }
  }
}

TEST(BlockSumOfHalves, IsTheSumOfTheWhole) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const GuardedTensor x = random_tensor(dtype, {8, 33}, 2), whole(dtype, {33});
    const GuardedTensor halves(dtype, {2, 33}), joined(dtype, {33});

    ops::sum_blocks(stream(), whole, x);
    for (const std::int64_t half : {0, 1}) {
      ops::sum_blocks(stream(), halves.view().range(half * 33, 33),
                      x.view().range(half * 132, 132).reshaped({4, 33}));
    }
    ops::sum_blocks(stream(), joined, halves);

    EXPECT_EQ(joined.raw(), whole.raw());
  }
}

// Sums of few levels and, at the end, of all.
TEST(BlockSumOfPairs, IsTheSumOfTheWhole) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const std::int64_t leaves : {3, 4, 7, 8, 13, 40}) {
      const GuardedTensor x = random_tensor(dtype, {leaves, 33}, 4), whole(dtype, {33});
      ops::sum_blocks(stream(), whole, x);
      for (std::int64_t doubled = 1; 2 * doubled < leaves; ++doubled) {
        const std::int64_t blocks = leaves - doubled;
        const GuardedTensor some(dtype, {blocks, 33}), y(dtype, {33});
        for (std::int64_t i = 0; i < blocks; ++i) {
          const bool pair = i < doubled;
          const std::int64_t first = pair ? 2 * i : doubled + i;
          ops::sum_blocks(stream(), some.view().range(i * 33, 33),
                          x.view().range(first * 33, pair ? 66 : 33).reshaped({pair ? 2 : 1, 33}));
        }

        ops::sum_blocks(stream(), y, some, doubled);

        EXPECT_EQ(y.raw(), whole.raw()) << doubled << " of " << leaves;
      }
    }
  }
}

TEST_P(BlockSum, MayOverwriteTheFirstBlock) {
  const GuardedTensor x = random_tensor(GetParam(), {3, 5, 400}, 3), y(GetParam(), {5, 400});
  ops::sum_blocks(stream(), y, x);
  const Values before = x.get();

  const Tensor first = x.view().range(0, 2000).reshaped({5, 400});
  ops::sum_blocks(stream(), first, x);

  const Values after = x.get();
  EXPECT_EQ(Values(after.begin(), after.begin() + 2000), y.get());
  EXPECT_EQ(Values(after.begin() + 2000, after.end()), Values(before.begin() + 2000, before.end()));
}

TEST(BlockSumErrors, RefuseOtherShapesDtypesAndOverlaps) {
  const GuardedTensor x(DType::f32, {3, 4}), y(DType::f32, {5}), wide(DType::f64, {4});
  const GuardedTensor none(DType::f32, {0, 4}), out(DType::f32, {4});

  expect_error([&] { ops::sum_blocks(stream(), y, x); }, {"sum_blocks", "(5)", "(4)"});
  expect_error([&] { ops::sum_blocks(stream(), wide, x); }, {"f32", "f64"});
  expect_error([&] { ops::sum_blocks(stream(), out, x, 3); }, {"3 of 3 blocks doubled"});
  expect_error([&] { ops::sum_blocks(stream(), out, none); }, {"(0, 4)", "one block"});
  expect_error([&] { ops::sum_blocks(stream(), x.view().range(4, 4), x); }, {"shares memory"});
  expect_error([&] { ops::sum_blocks(stream(), x.view().range(2, 4), x); }, {"shares"});
}

TEST_P(Bias, AddsInF32AndRoundsOnce) {
  for (const DType input : {DType::f32, DType::bf16, DType::f16}) {
    for (const std::int64_t columns : {1, 7, 33}) {
      const Shape shape{2, 3, columns};
      const GuardedTensor x = random_tensor(input, shape, 1, -3.0, 3.0), y(GetParam(), shape);
      const GuardedTensor bias = random_tensor(DType::f32, {columns}, 2);
      const GuardedTensor residual = random_tensor(GetParam(), shape, 3);
      const Values xv = x.get(), bv = bias.get(), rv = residual.get();
      for (const bool with_bias : {false, true}) {
        for (const bool with_residual : {false, true}) {
          Values expected = xv;
          for (std::size_t i = 0; i < xv.size(); ++i) {
            auto sum = static_cast<float>(xv[i]);
            if (with_bias) sum += static_cast<float>(bv[i % bv.size()]);
            if (with_residual) sum += static_cast<float>(rv[i]);
            expected[i] = static_cast<double>(sum);
          }

          ops::add_bias_residual(stream(), y, x, with_bias ? bias.view() : Tensor{},
                                 with_residual ? residual.view() : Tensor{});

          EXPECT_EQ(y.get(), GuardedTensor(GetParam(), shape, expected).get());
        }
      }
    }
  }
}

TEST_P(Bias, MayOverwriteTheProductOrTheResidual) {
  const Shape shape{5, 19};
  const GuardedTensor x = random_tensor(GetParam(), shape, 1), y(GetParam(), shape);
  const GuardedTensor residual = random_tensor(GetParam(), shape, 2);
  const GuardedTensor bias = random_tensor(DType::f32, {19}, 3);
  const GuardedTensor kept(GetParam(), shape, x.get());
  ops::add_bias_residual(stream(), y, x, bias, residual);

  ops::add_bias_residual(stream(), x, x, bias, residual);
  ops::add_bias_residual(stream(), residual, kept, bias, residual);

  EXPECT_EQ(x.raw(), y.raw());
  EXPECT_EQ(residual.raw(), y.raw());
}

TEST(BiasOfASummedProduct, IsTheFusedLayer) {
  const GuardedTensor x = random_tensor(DType::f32, {600, 24}, 1);
  const GuardedTensor w = random_tensor(DType::f32, {17, 24}, 2);
  const GuardedTensor bias = random_tensor(DType::f32, {17}, 3);
  const GuardedTensor residual = random_tensor(DType::f32, {600, 17}, 4);
  const GuardedTensor fused(DType::f32, {600, 17}), y(DType::f32, {600, 17});

  ops::linear_forward(stream(), fused, x, w, bias, residual);
  for (const std::int64_t first : {0, 512}) {  // rows that the fused call multiplies together
    const std::int64_t rows = std::min<std::int64_t>(512, 600 - first);
    const Tensor part = y.view().range(first * 17, rows * 17).reshaped({rows, 17});
    ops::linear_forward(stream(), part, x.view().range(first * 24, rows * 24).reshaped({rows, 24}),
                        w);
  }
  ops::add_bias_residual(stream(), y, y, bias, residual);

  if (stream().device().type() == DeviceType::cpu) {
    EXPECT_EQ(y.raw(), fused.raw());
  } else {  // cuBLASLt adds the bias last
    expect_close(y.get(), fused.get(), 1e-6, 1e-6);
  }
}

TEST_P(Bias, ColumnSumsHaveTheBitsOfTheFusedGradient) {
  for (const std::int64_t rows : {1, 3, 255, 256, 257, 700}) {
    for (const std::int64_t columns : {1, 33, 2060}) {
      if (rows * columns > 600000) continue;
      const GuardedTensor dy = random_tensor(GetParam(), {rows, columns}, 1);
      const GuardedTensor x = random_tensor(GetParam(), {rows, 3}, 2);
      const GuardedTensor dw(DType::f32, {columns, 3},
                             Values(static_cast<std::size_t>(3 * columns)));
      const GuardedTensor fused = random_tensor(DType::f32, {columns}, 3);
      const GuardedTensor alone(DType::f32, {columns}, fused.get());
      Values expected = fused.get();
      const Values gradient = dy.get();
      for (std::size_t i = 0; i < gradient.size(); ++i)
        expected[i % expected.size()] += gradient[i];

      ops::linear_backward_weight(stream(), dw, fused, dy, x);
      ops::column_sums(stream(), alone, dy);

      EXPECT_EQ(alone.raw(), fused.raw());
      expect_close(alone.get(), expected, 1e-5, 1e-4);
    }
  }
}

TEST_P(Bias, RefusesOperandsThatDoNotFit) {
  const GuardedTensor x(GetParam(), {4, 6}), y(GetParam(), {4, 6}), odd(GetParam(), {4, 5});
  const GuardedTensor bias(DType::f32, {5}), wide(DType::f64, {4, 6});

  expect_error([&] { ops::add_bias_residual(stream(), y, odd); }, {"(4, 5)", "(4, 6)"});
  expect_error([&] { ops::add_bias_residual(stream(), y, x, bias); }, {"bias", "(5)", "(6)"});
  expect_error([&] { ops::add_bias_residual(stream(), y, x, {}, wide); }, {"residual", "f64"});
  expect_error([&] { ops::column_sums(stream(), bias, x); }, {"db", "(5)", "(6)"});
}

}  // namespace
}  // namespace trireme
