// SPDX-License-Identifier: Apache-2.0
// 8-bit matrices with a scale per block. Scales are read by the text on layouts of scaling factors
// in cuBLAS's documentation, not by the code under test.
#include <gmock/gmock.h>

#include <limits>
#include <map>

#include "runtime/device/gpu_facts.h"
#include "runtime/ops/gemm/fp8.h"
#include "runtime/ops/gemm/gemm_tuning.h"
#include "tests/ops/guarded_tensor.h"

namespace trireme::test {
namespace {

using ops::Fp8Scaling;
using testing::Contains;
using testing::EndsWith;
using Values = std::vector<double>;
using Place = std::pair<std::int64_t, std::int64_t>;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return a / b + (a % b == 0 ? 0 : 1);
}

double e8m0(unsigned char code) {
  return code == 255 ? std::nan("") : std::ldexp(1.0, code - 127);
}

// Scales of the blocks of a matrix by (row, block along the row); 128 x 128 once for each row.
// Padding of 1 x 32 must be zero.
std::map<Place, double> documented_scales(Fp8Scaling scaling, const GuardedTensor& scale,
                                          std::int64_t rows, std::int64_t columns) {
  std::map<Place, double> found;
  const std::int64_t length = ceil_div(columns, scaling == Fp8Scaling::row_32 ? 32 : 128);
  if (scaling != Fp8Scaling::row_32) {
    const Values values = scale.get();
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t block = 0; block < length; ++block) {
        const std::int64_t at = scaling == Fp8Scaling::row_128
                                    ? row + rows * block  // M-major, M x L
                                    : block + row / 128 * ceil_div(length, 4) * 4;  // L_4 x M / 128
        found[{row, block}] = values.at(static_cast<std::size_t>(at));
      }
    }
    return found;
  }
  const std::vector<unsigned char> codes = scale.raw();
  const std::int64_t tiles_across = ceil_div(length, 4);
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(codes.size()); ++i) {
    const std::int64_t tile = i / 512, offset = i % 512;
    const std::int64_t outer = (offset % 16) / 4 * 32 + offset / 16, inner = offset % 4;
    const Place place{tile / tiles_across * 128 + outer, tile % tiles_across * 4 + inner};
    const unsigned char code = codes[static_cast<std::size_t>(i)];
    if (place.first < rows && place.second < length) {
      found[place] = e8m0(code);
    } else {
      EXPECT_EQ(code, 0) << "padding " << i;
    }
  }
  EXPECT_EQ(static_cast<std::int64_t>(found.size()), rows * length);
  return found;
}

struct Quantized {
  Fp8Scaling scaling;
  GuardedTensor codes, scale;

  Quantized(Fp8Scaling how, const Shape& shape)
      : scaling(how),
        codes(DType::f8e4m3, shape),
        scale(ops::fp8_scale_dtype(how), ops::fp8_scale_shape(how, shape)) {}
  Quantized(Fp8Scaling how, const Tensor& x)
      : Quantized(how, Shape{x.shape.rows(), x.shape.back()}) {
    ops::quantize_fp8(stream(), {*this, {}}, x);
  }
  operator ops::Fp8Matrix() const { return {codes, scale, scaling}; }  // NOLINT: tests read better

  [[nodiscard]] std::int64_t rows() const { return codes.view().shape[0]; }
  [[nodiscard]] std::int64_t columns() const { return codes.view().shape[1]; }
  [[nodiscard]] std::map<Place, double> scales() const {
    return documented_scales(scaling, scale, rows(), columns());
  }
  [[nodiscard]] std::int64_t wide() const { return scaling == Fp8Scaling::row_32 ? 32 : 128; }
  [[nodiscard]] Values values() const {
    Values result = codes.get();
    const auto factors = scales();
    for (std::int64_t i = 0; i < rows() * columns(); ++i)
      result[static_cast<std::size_t>(i)] *= factors.at({i / columns(), i % columns() / wide()});
    return result;
  }
};

Values turned(const Values& values, std::int64_t rows, std::int64_t columns) {
  Values result(values.size());
  for (std::int64_t i = 0; i < rows * columns; ++i)
    result[static_cast<std::size_t>(i % columns * rows + i / columns)] =
        values[static_cast<std::size_t>(i)];
  return result;
}

const std::vector<Shape> shapes{{1, 1}, {3, 7}, {2, 5, 33}, {130, 264}, {128, 640}, {200, 96}};

// Magnitudes that differ from element to element by up to 2^12.
GuardedTensor wild_tensor(DType dtype, const Shape& shape, unsigned seed) {
  const GuardedTensor plain = random_tensor(DType::f32, shape, seed);
  Values values = plain.get();
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::ldexp(values[i], static_cast<int>(i * 7 % 13) - 6);
  return {dtype, shape, values};
}

std::string label(Fp8Scaling scaling) {
  return scaling == Fp8Scaling::row_32    ? "1x32"
         : scaling == Fp8Scaling::row_128 ? "1x128"
                                          : "128x128";
}

class QuantizeBlocks : public ::testing::TestWithParam<std::tuple<DType, Fp8Scaling>> {
 protected:
  const DType dtype = std::get<0>(GetParam());
  const Fp8Scaling scaling = std::get<1>(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Types, QuantizeBlocks,
                         ::testing::Combine(::testing::Values(DType::f32, DType::bf16, DType::f16),
                                            ::testing::Values(Fp8Scaling::row_128,
                                                              Fp8Scaling::square_128,
                                                              Fp8Scaling::row_32)),
                         [](const auto& info) {
                           return fmt::format("{}_{}", name_of(std::get<0>(info.param)),
                                              label(std::get<1>(info.param)));
                         });

TEST_P(QuantizeBlocks, EachBlockHasTheSmallestPowerOfTwoThatHoldsIt) {
  for (const Shape& shape : shapes) {
    const GuardedTensor x = wild_tensor(dtype, shape, 1);
    const Values exact = x.get();
    const Quantized q(scaling, x);
    const Values got = q.values();
    const auto scales = q.scales();
    std::map<Place, double> largest;  // of each block
    const auto block_of = [&](std::int64_t row, std::int64_t column) {
      return Place{scaling == Fp8Scaling::square_128 ? row / 128 : row, column / q.wide()};
    };

    for (std::int64_t i = 0; i < q.rows() * q.columns(); ++i) {
      double& amax = largest[block_of(i / q.columns(), i % q.columns())];
      amax = std::max(amax, std::abs(exact[static_cast<std::size_t>(i)]));
    }

    for (std::int64_t i = 0; i < q.rows() * q.columns(); ++i) {
      const std::int64_t row = i / q.columns(), column = i % q.columns();
      const double scale = scales.at({row, column / q.wide()});
      const double amax = largest.at(block_of(row, column));
      const double value = exact[static_cast<std::size_t>(i)];
      int exponent = 0;
      ASSERT_EQ(std::frexp(scale, &exponent), 0.5) << "no power of two: " << scale;
      ASSERT_LE(amax, 448 * scale);
      ASSERT_GT(amax, 224 * scale);
      ASSERT_NEAR(got[static_cast<std::size_t>(i)], value,
                  std::max(0x1p-4 * std::abs(value), 0x1p-10 * scale))
          << row << ", " << column << " of " << shape.to_string();
    }
  }
}

TEST_P(QuantizeBlocks, TheTransposeIsQuantisedAsAMatrixOfItsOwn) {
  for (const Shape& shape : shapes) {
    const GuardedTensor x = wild_tensor(dtype, shape, 2);
    const std::int64_t rows = shape.rows(), columns = shape.back();
    const GuardedTensor mirrored(dtype, {columns, rows}, turned(x.get(), rows, columns));
    const Quantized straight(scaling, x), expected(scaling, mirrored);
    const Quantized one(scaling, {rows, columns}), other(scaling, {columns, rows}),
        alone(scaling, {columns, rows});

    ops::quantize_fp8(stream(), {one, other}, x);
    ops::quantize_fp8(stream(), {{}, alone}, x);

    EXPECT_EQ(one.codes.raw(), straight.codes.raw());
    EXPECT_EQ(one.scales(), straight.scales());
    for (const Quantized* const got : {&other, &alone}) {
      EXPECT_EQ(got->codes.raw(), expected.codes.raw()) << shape.to_string();
      EXPECT_EQ(got->scales(), expected.scales()) << shape.to_string();
    }
  }
}

TEST_P(QuantizeBlocks, OnlyTheBlockOfANonFiniteValueIsSpoiled) {
  Values values(static_cast<std::size_t>(2 * 300), 0.0);
  values[5] = std::numeric_limits<double>::infinity();
  values[200] = 1.0;
  const Quantized q(scaling, GuardedTensor(dtype, {2, 300}, values));

  for (const auto& [place, scale] : q.scales()) {
    const bool spoiled =
        place.second == 0 && (place.first == 0 || scaling == Fp8Scaling::square_128);
    EXPECT_EQ(std::isfinite(scale), !spoiled) << place.first << ", " << place.second;
  }
}

Values product(const Values& a, const Values& b, std::int64_t m, std::int64_t n, std::int64_t k) {
  Values result(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t x = 0; x < k; ++x)
        result[static_cast<std::size_t>(i * n + j)] +=
            a[static_cast<std::size_t>(i * k + x)] * b[static_cast<std::size_t>(j * k + x)];
    }
  }
  return result;
}

using Pair = std::pair<Fp8Scaling, Fp8Scaling>;
const std::vector<Pair> pairs{{Fp8Scaling::row_128, Fp8Scaling::row_128},
                              {Fp8Scaling::row_128, Fp8Scaling::square_128},
                              {Fp8Scaling::square_128, Fp8Scaling::row_128},
                              {Fp8Scaling::row_32, Fp8Scaling::row_32}};

class LinearFp8Blocks : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, LinearFp8Blocks,
                         ::testing::Values(DType::f32, DType::bf16, DType::f16), dtype_label);

TEST_P(LinearFp8Blocks, IsTheProductOfTheScaledCodesWithBiasAndResidual) {
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1, 1, 1},
                                {33, 17, 129},
                                {40, 48, 272},  // sizes of tensor cores, with partial blocks
                                {132, 144, 512},
                                {513, 6, 40}}) {
    for (const auto& [left, right] : pairs) {
      SCOPED_TRACE(fmt::format("{}*{} of {} x {} x {}", label(left), label(right), m, n, k));
      const Quantized a(left, random_tensor(GetParam(), {m, k}, 3));
      const Quantized b(right, random_tensor(GetParam(), {n, k}, 4, -20.0, 20.0));
      const GuardedTensor bias = random_tensor(DType::f32, {n}, 5);
      const GuardedTensor residual = random_tensor(GetParam(), {m, n}, 6);
      const GuardedTensor plain(GetParam(), {m, n}), full(GetParam(), {m, n});
      const Values r = residual.get(), c = bias.get();
      Values expected = product(a.values(), b.values(), m, n, k);

      ops::linear_fp8(stream(), plain, a, b);
      ops::linear_fp8(stream(), full, a, b, bias, residual);
      ops::linear_fp8(stream(), residual, a, b, {}, residual);

      expect_close(plain.get(), expected, rounding_of(GetParam()), 20 * sum_rounding(k));
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

// Otherwise our kernel does, and a run is slow without a word.
TEST(LinearFp8BlocksOnGpus, AreMultipliedByTheLibrary) {
  if (stream().device().type() != DeviceType::cuda) GTEST_SKIP() << "of GPUs only";
  const bool blackwell = cuda_facts().gpus.front().capability >= 100;
  for (const auto& [left, right] : pairs) {
    const Quantized a(left, random_tensor(DType::bf16, {64, 288}, 3));
    const Quantized b(right, random_tensor(DType::bf16, {32, 288}, 4));
    const GuardedTensor y(DType::bf16, {64, 32});

    ops::linear_fp8(stream(), y, a, b);

    // The library has the operands the other way round.
    const std::string name = fmt::format("{}*{}", label(right), label(left));
    std::vector<std::string> kinds;
    for (const ops::GemmKey& key : ops::unmeasured_gemms())
      kinds.push_back(ops::to_text(key));
    const auto there = Contains(EndsWith(" " + name));
    if ((left == Fp8Scaling::row_32) == blackwell) {
      EXPECT_THAT(kinds, there);
    } else {
      EXPECT_THAT(kinds, testing::Not(there));
    }
  }
}

TEST(LinearFp8BlocksErrors, NameWhatDoesNotFit) {
  const GuardedTensor x = random_tensor(DType::f32, {4, 6}, 1), y(DType::f32, {4, 4});
  const Quantized square(Fp8Scaling::square_128, x), row(Fp8Scaling::row_128, x),
      small(Fp8Scaling::row_32, x);
  const GuardedTensor e5m2(DType::f8e5m2, {4, 6}), amax(DType::u32, {1});

  expect_error([&] { ops::linear_fp8(stream(), y, square, square); }, {"no products"});
  expect_error([&] { ops::linear_fp8(stream(), y, row, small); }, {"no products"});
  expect_error(
      [&] {
        ops::quantize_fp8(stream(), {{e5m2, row.scale, Fp8Scaling::row_128}, {}}, x);
      },
      {"codes holds f8e5m2"});
  expect_error(
      [&] {
        ops::quantize_fp8(stream(), {{row.codes, small.scale, Fp8Scaling::row_128}, {}}, x);
      },
      {"scale"});
  expect_error([&] { ops::quantize_fp8(stream(), {row, {}}, x, amax); }, {"maxima"});
}

}  // namespace
}  // namespace trireme::test
