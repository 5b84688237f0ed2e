// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/gemm/fp8.h"

#include <limits>

#include "runtime/base/float8.h"
#include "tests/ops/guarded_tensor.h"

namespace trireme::test {
namespace {

using Values = std::vector<double>;

// A matrix of codes with its scale.
struct Quantized {
  GuardedTensor codes, scale;

  Quantized(DType format, const Tensor& x, bool transposed = false)
      : codes(format, transposed ? Shape{x.shape.back(), x.shape.rows()}
                                 : Shape{x.shape.rows(), x.shape.back()}),
        scale(DType::f32, {1}) {
    ops::Fp8Operand q;
    (transposed ? q.turned : q.straight) = {codes, scale};
    ops::quantize_fp8(stream(), q, x);
  }
  operator ops::Fp8Matrix() const { return {codes, scale}; }  // NOLINT: tests read better

  [[nodiscard]] Values values() const {
    Values result = codes.get();
    const double factor = scale.get()[0];
    for (double& value : result)
      value *= factor;
    return result;
  }
};

double largest_of(DType format) {
  return static_cast<double>(format == DType::f8e4m3 ? f8e4m3::largest : f8e5m2::largest);
}
// Half of the last bit, relative to the value.
double rounding_of_format(DType format) {
  return format == DType::f8e4m3 ? 0x1p-4 : 0x1p-3;
}
// The smallest code, relative to the largest.
double step_of_format(DType format) {
  return format == DType::f8e4m3 ? 0x1p-9 / 448 : 0x1p-16 / 57344;
}

class Quantize : public ::testing::TestWithParam<std::tuple<DType, DType>> {
 protected:
  const DType dtype = std::get<0>(GetParam()), format = std::get<1>(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Types, Quantize,
                         ::testing::Combine(::testing::Values(DType::f32, DType::bf16, DType::f16),
                                            ::testing::Values(DType::f8e4m3, DType::f8e5m2)),
                         [](const auto& info) {
                           return fmt::format("{}_{}", name_of(std::get<0>(info.param)),
                                              name_of(std::get<1>(info.param)));
                         });

TEST_P(Quantize, RoundsToTheNearestCodeOfAPowerOfTwoScale) {
  for (const double size : {1e-4, 1.0, 3e4}) {
    for (const Shape& shape : {Shape{1, 1}, Shape{3, 7}, Shape{2, 5, 33}, Shape{64, 129}}) {
      const GuardedTensor x = random_tensor(dtype, shape, 1, -size, size);
      const Values exact = x.get();
      double amax = 0;
      for (const double value : exact)
        amax = std::max(amax, std::abs(value));

      const Quantized q(format, x);

      const double scale = q.scale.get()[0];
      int exponent = 0;
      EXPECT_EQ(std::frexp(scale, &exponent), 0.5) << "no power of two: " << scale;
      EXPECT_LE(amax, scale * largest_of(format));
      EXPECT_GT(amax, scale * largest_of(format) / 2);
      expect_close(q.values(), exact, rounding_of_format(format), amax * step_of_format(format));
    }
  }
}

TEST_P(Quantize, TheTransposeHoldsTheSameCodes) {
  const std::int64_t rows = 37, columns = 19;
  const GuardedTensor x = random_tensor(dtype, {rows, columns}, 2, -3.0, 3.0);
  const Quantized q(format, x), t(format, x, /*transposed=*/true);
  const Values straight = q.codes.get(), turned = t.codes.get();

  EXPECT_EQ(q.scale.raw(), t.scale.raw());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      ASSERT_EQ(straight[static_cast<std::size_t>(r * columns + c)],
                turned[static_cast<std::size_t>(c * rows + r)]);
    }
  }
}

// Shapes of whole packs, of odd ones, and of several tiles.
TEST_P(Quantize, OneReadingForBothAndAKnownScaleGiveTheSameCodes) {
  for (const Shape& shape : {Shape{1, 1}, Shape{37, 19}, Shape{3, 40, 72}, Shape{64, 200},
                             Shape{129, 64}, Shape{16, 8}}) {
    const GuardedTensor x = random_tensor(dtype, shape, 2, -3.0, 3.0);
    const Quantized straight(format, x), turned(format, x, /*transposed=*/true);
    const GuardedTensor codes(format, straight.codes.view().shape), scale(DType::f32, {1});
    const GuardedTensor transposed(format, turned.codes.view().shape);
    const GuardedTensor again(format, codes.view().shape),
        again_turned(format, transposed.view().shape);

    ops::quantize_fp8(stream(), {{codes, scale}, {transposed, scale}}, x);
    ops::encode_fp8(stream(), {{again, scale}, {}}, x);
    ops::encode_fp8(stream(), {{}, {again_turned, scale}}, x);

    EXPECT_EQ(scale.raw(), straight.scale.raw());
    EXPECT_EQ(codes.raw(), straight.codes.raw());
    EXPECT_EQ(transposed.raw(), turned.codes.raw());
    EXPECT_EQ(again.raw(), codes.raw());
    EXPECT_EQ(again_turned.raw(), transposed.raw());
  }
}

TEST_P(Quantize, AScaleThatIsNotFiniteStaysSo) {
  const GuardedTensor x(dtype, {1, 2}, {1.0, std::numeric_limits<double>::infinity()});
  const Quantized q(format, x);
  const GuardedTensor again(format, {1, 2});

  ops::encode_fp8(stream(), {{again, q.scale}, {}}, x);

  EXPECT_EQ(again.raw(), q.codes.raw());
  EXPECT_TRUE(std::isinf(q.scale.get()[0]));
}

TEST_P(Quantize, ZerosStayZeroAndNonFiniteValuesSpoilTheScale) {
  const Quantized zero(format, GuardedTensor(dtype, {2, 3}, Values(6, 0.0)));
  EXPECT_EQ(zero.values(), Values(6, 0.0));

  Values values(6, 1.0);
  values[3] = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(std::isinf(Quantized(format, GuardedTensor(dtype, {2, 3}, values)).scale.get()[0]));
  values[5] = std::nan("");
  EXPECT_TRUE(std::isnan(Quantized(format, GuardedTensor(dtype, {2, 3}, values)).scale.get()[0]));
}

// a (M, K) b (N, K)^T.
Values product(const Values& a, const Values& b, std::int64_t m, std::int64_t n, std::int64_t k) {
  Values result(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double& sum = result[static_cast<std::size_t>(i * n + j)];
      for (std::int64_t x = 0; x < k; ++x)
        sum += a[static_cast<std::size_t>(i * k + x)] * b[static_cast<std::size_t>(j * k + x)];
    }
  }
  return result;
}

class LinearFp8 : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, LinearFp8, ::testing::Values(DType::f32, DType::bf16, DType::f16),
                         dtype_label);

TEST_P(LinearFp8, IsTheProductOfTheCodesWithBiasAndResidual) {
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1, 1, 1},
                                {3, 5, 7},
                                {33, 17, 129},
                                {40, 48, 64},  // sizes of tensor cores
                                {513, 6, 40},
                                {2, 2050, 9}}) {
    for (const DType format : {DType::f8e4m3, DType::f8e5m2}) {
      const Quantized a(format, random_tensor(GetParam(), {m, k}, 3));
      const Quantized b(DType::f8e4m3, random_tensor(GetParam(), {n, k}, 4, -20.0, 20.0));
      const GuardedTensor bias = random_tensor(DType::f32, {n}, 5);
      const GuardedTensor residual = random_tensor(GetParam(), {m, n}, 6);
      const GuardedTensor plain(GetParam(), {m, n}), full(GetParam(), {m, n});
      const Values r = residual.get(), c = bias.get();
      Values expected = product(a.values(), b.values(), m, n, k);

      ops::linear_fp8(stream(), plain, a, b);
      expect_close(plain.get(), expected, rounding_of(GetParam()), 20 * sum_rounding(k));
      ops::linear_fp8(stream(), full, a, b, bias, residual);
      ops::linear_fp8(stream(), residual, a, b, {}, residual);

      Values added = expected;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        added[i] += r[i];
        expected[i] += c[i % static_cast<std::size_t>(n)] + r[i];
      }
      expect_close(full.get(), expected, rounding_of(GetParam()),
                   20 * sum_rounding(k) + bias_rounding(GetParam()));
      expect_close(residual.get(), added, rounding_of(GetParam()), 20 * sum_rounding(k));
    }
  }
}

// On a GPU the bias may have the result's dtype: in the library's products and in our kernel.
TEST_P(LinearFp8, AddsABiasThatWasRoundedBefore) {
  if (stream().device().type() != DeviceType::cuda) GTEST_SKIP() << "of GPUs only";
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{40, 48, 64}, {33, 17, 129}}) {
    const Quantized a(DType::f8e4m3, random_tensor(GetParam(), {m, k}, 3));
    const Quantized b(DType::f8e4m3, random_tensor(GetParam(), {n, k}, 4));
    const GuardedTensor rounded = random_tensor(GetParam(), {n}, 5);
    const GuardedTensor bias(DType::f32, {n}, rounded.get());
    const GuardedTensor y(GetParam(), {m, n}), expected(GetParam(), {m, n});

    ops::linear_fp8(stream(), expected, a, b, bias);
    ops::linear_fp8(stream(), y, a, b, rounded);

    EXPECT_EQ(y.raw(), expected.raw());
  }
}

// Against exact gradients: the error of a sum of products with independent roundings equals that of
// one product, relative to the size of the result.
TEST_P(LinearFp8, GivesTheThreeProductsOfALinearLayerWithinItsRounding) {
  const std::int64_t rows = 96, inputs = 64, outputs = 80;
  const GuardedTensor x = random_tensor(GetParam(), {rows, inputs}, 7);
  const GuardedTensor w = random_tensor(GetParam(), {outputs, inputs}, 8, -0.1, 0.1);
  const GuardedTensor dy = random_tensor(GetParam(), {rows, outputs}, 9, -1e-3, 1e-3);
  const auto turned = [](const Values& values, std::int64_t r, std::int64_t c) {
    Values result(values.size());
    for (std::int64_t i = 0; i < r * c; ++i)
      result[static_cast<std::size_t>(i % c * r + i / c)] = values[static_cast<std::size_t>(i)];
    return result;
  };
  const Values wt = turned(w.get(), outputs, inputs), xt = turned(x.get(), rows, inputs),
               dyt = turned(dy.get(), rows, outputs);
  const auto error = [](const GuardedTensor& actual, const Values& exact) {
    const Values got = actual.get();
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      difference += (got[i] - exact[i]) * (got[i] - exact[i]);
      size += exact[i] * exact[i];
    }
    return std::sqrt(difference / size);
  };
  const GuardedTensor y(GetParam(), {rows, outputs}), dx(GetParam(), {rows, inputs});
  const GuardedTensor dw(DType::f32, {outputs, inputs},
                         Values(static_cast<std::size_t>(outputs * inputs), 0.0));

  ops::linear_fp8(stream(), y, Quantized(DType::f8e4m3, x), Quantized(DType::f8e4m3, w));
  ops::linear_fp8(stream(), dx, Quantized(DType::f8e5m2, dy),
                  Quantized(DType::f8e4m3, w, /*transposed=*/true));
  ops::linear_fp8(stream(), dw, Quantized(DType::f8e5m2, dy, /*transposed=*/true),
                  Quantized(DType::f8e4m3, x, /*transposed=*/true), {}, dw);

  EXPECT_LT(error(y, product(x.get(), w.get(), rows, outputs, inputs)), 0.05);
  EXPECT_LT(error(dx, product(dy.get(), wt, rows, inputs, outputs)), 0.08);
  EXPECT_LT(error(dw, product(dyt, xt, outputs, inputs, rows)), 0.08);
}

TEST(LinearFp8Errors, AnOperandThatIsNotFiniteReachesTheResult) {
  Values values(6, 1.0);
  values[4] = std::numeric_limits<double>::infinity();
  const Quantized a(DType::f8e4m3, GuardedTensor(DType::f32, {2, 3}, values));
  const Quantized b(DType::f8e4m3, random_tensor(DType::f32, {4, 3}, 1));
  const GuardedTensor y(DType::f32, {2, 4});

  ops::linear_fp8(stream(), y, a, b);

  for (const double value : y.get())
    EXPECT_TRUE(std::isnan(value));
}

TEST(LinearFp8Errors, NameTheOperand) {
  const Quantized a(DType::f8e4m3, random_tensor(DType::f32, {2, 3}, 1));
  const Quantized b(DType::f8e4m3, random_tensor(DType::f32, {4, 5}, 1));
  const GuardedTensor y(DType::f32, {2, 4}), plain(DType::f32, {2, 3}), scale(DType::f32, {1});

  expect_error([&] { ops::linear_fp8(stream(), y, a, b); }, {"linear_fp8", "(2, 3)", "(4, 5)"});
  expect_error([&] { ops::linear_fp8(stream(), y, {plain, scale}, a); }, {"a holds f32"});
  expect_error(
      [&] {
        ops::quantize_fp8(stream(), {{a.codes, scale}, {}}, y);
      },
      {"quantize_fp8", "(2, 3)", "(2, 4)"});
}

}  // namespace
}  // namespace trireme::test
