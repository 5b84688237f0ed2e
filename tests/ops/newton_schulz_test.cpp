// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/gemm/newton_schulz.h"

#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;

TEST(NewtonSchulz, MatricesAreLoadedAndStoredPlainAndTransposed) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const bool transposed : {false, true}) {
      for (const auto& [rows, columns] :
           {std::pair<std::int64_t, std::int64_t>{1, 1}, {3, 5}, {33, 70}, {64, 32}, {100, 1}}) {
        const ops::MatrixBlocks blocks{.count = 3,
                                       .stride = rows * columns + 7,
                                       .rows = rows,
                                       .columns = columns,
                                       .transposed = transposed};
        const std::int64_t stored = 3 * blocks.stride;
        const GuardedTensor x = random_tensor(DType::f32, {stored}, 1);
        const GuardedTensor y(dtype,
                              transposed ? Shape{3, columns, rows} : Shape{3, rows, columns});
        const std::vector<double> before = x.get();

        ops::load_matrices(stream(), y, x, blocks);
        ops::store_matrices(stream(), x, y, blocks, 2.0F);

        const std::vector<double> loaded = y.get();
        std::vector<double> expected = before;
        for (std::int64_t b = 0; b < 3; ++b) {
          for (std::int64_t r = 0; r < rows; ++r) {
            for (std::int64_t c = 0; c < columns; ++c) {
              const auto place = static_cast<std::size_t>(b * blocks.stride + r * columns + c);
              const auto in_y = static_cast<std::size_t>(
                  b * rows * columns + (transposed ? c * rows + r : r * columns + c));
              const double value = dtype == DType::f32
                                       ? before[place]
                                       : static_cast<double>(static_cast<float>(
                                             bf16(static_cast<float>(before[place]))));
              ASSERT_EQ(loaded[in_y], value);
              expected[place] = 2 * value;
            }
          }
        }
        EXPECT_EQ(x.get(), expected);
      }
    }
  }
}

TEST(NewtonSchulz, TheGramMatrixIsDividedByItsTraceWhereAskedFor) {
  for (const std::int64_t side : {1, 7, 300}) {
    const GuardedTensor gram = random_tensor(DType::f32, {side, side}, 2, 0.5, 1.5);
    const GuardedTensor g(DType::f32, {side, side}), scale(DType::f32, {1});
    const std::vector<double> values = gram.get();
    double trace = 0;
    for (std::int64_t i = 0; i < side; ++i)
      trace += values[static_cast<std::size_t>(i * (side + 1))];
    for (const bool normalize : {false, true}) {
      std::vector<double> expected = values;
      for (double& value : expected)
        value /= normalize ? trace : 1;

      ops::newton_schulz_gram(stream(), g, scale, gram, normalize);

      expect_close(g.get(), expected, 1e-6, 1e-9);
      EXPECT_NEAR(scale.get()[0], normalize ? 1 / std::sqrt(trace) : 1, 1e-6);
    }
  }
}

TEST(NewtonSchulz, AZeroMatrixGivesZerosAndNoNaN) {
  const GuardedTensor gram(DType::f32, {5, 5}, std::vector<double>(25));
  const GuardedTensor g(DType::f32, {5, 5}), p(DType::f32, {5, 5}), scale(DType::f32, {1});

  ops::newton_schulz_gram(stream(), g, scale, gram, true);
  ops::newton_schulz_polynomial(stream(), p, g, g, scale);

  EXPECT_EQ(p.get(), std::vector<double>(25));
}

TEST(NewtonSchulz, ThePolynomialFollowsItsFormula) {
  for (const std::int64_t side : {1, 6, 65}) {
    const GuardedTensor g = random_tensor(DType::f32, {side, side}, 3),
                        g2 = random_tensor(DType::f32, {side, side}, 4);
    const GuardedTensor p(DType::f32, {side, side}), scale(DType::f32, {1}, {0.25});
    std::vector<double> expected(static_cast<std::size_t>(side * side));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const bool diagonal = i % static_cast<std::size_t>(side + 1) == 0;
      expected[i] = 0.25 * ((diagonal ? 3.4445 : 0) - 4.7750 * g.get()[i] + 2.0315 * g2.get()[i]);
    }

    ops::newton_schulz_polynomial(stream(), p, g, g2, scale);

    expect_close(p.get(), expected, 1e-6, 1e-6);
  }
}

}  // namespace
}  // namespace trireme
