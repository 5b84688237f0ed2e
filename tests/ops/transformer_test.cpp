// SPDX-License-Identifier: Apache-2.0
// Embedding and layer norm; products, attention, activations and the loss have other files.
#include "runtime/ops/loss/embedding.h"
#include "runtime/ops/norm/row_norm.h"
#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;
using Values = std::vector<double>;

class LayerNorm : public TypedOp {};
class Embedding : public TypedOp {};
const auto all_types = ::testing::Values(DType::f32, DType::bf16, DType::f16);
INSTANTIATE_TEST_SUITE_P(Types, LayerNorm, all_types, dtype_label);
INSTANTIATE_TEST_SUITE_P(Types, Embedding, all_types, dtype_label);

struct Normalised {
  Values y, mean, rstd;
};
Normalised layer_norm(const Values& x, const Values& gamma, const Values& beta, double epsilon) {
  const std::size_t columns = gamma.size(), rows = x.size() / columns;
  Normalised result{Values(x.size()), Values(rows), Values(rows)};
  for (std::size_t r = 0; r < rows; ++r) {
    double mean = 0, variance = 0;
    for (std::size_t c = 0; c < columns; ++c)
      mean += x[r * columns + c];
    mean /= static_cast<double>(columns);
    for (std::size_t c = 0; c < columns; ++c) {
      variance += (x[r * columns + c] - mean) * (x[r * columns + c] - mean);
    }
    const double rstd = 1.0 / std::sqrt(variance / static_cast<double>(columns) + epsilon);
    for (std::size_t c = 0; c < columns; ++c) {
      result.y[r * columns + c] = (x[r * columns + c] - mean) * rstd * gamma[c] + beta[c];
    }
    result.mean[r] = mean;
    result.rstd[r] = rstd;
  }
  return result;
}

TEST_P(LayerNorm, ForwardNormalisesEachRowAndKeepsItsStatistics) {
  for (const std::int64_t rows : {1, 3, 65}) {
    for (const std::int64_t columns : {1, 3, 17, 33, 256}) {
      const GuardedTensor x = random_tensor(GetParam(), {rows, columns}, 1, 2.0, 5.0);
      const GuardedTensor gamma = random_tensor(DType::f32, {columns}, 2);
      const GuardedTensor beta = random_tensor(DType::f32, {columns}, 3);
      const GuardedTensor y(GetParam(), {rows, columns});
      const GuardedTensor mean(DType::f32, {rows}), rstd(DType::f32, {rows});
      const Normalised expected = layer_norm(x.get(), gamma.get(), beta.get(), 1e-5);

      ops::layer_norm_forward(stream(), y, mean, rstd, x, gamma, beta);

      // One column has variance 0: the result is rounding of x times 1 / sqrt(epsilon).
      const double absolute = columns == 1 ? 3e-4 : 2e-5;
      expect_close(y.get(), expected.y, relative(), absolute);
      expect_close(mean.get(), expected.mean, 1e-6, 1e-6);
      expect_close(rstd.get(), expected.rstd, 1e-5, 1e-5);
    }
  }
}

TEST_P(LayerNorm, BackwardAgreesWithFiniteDifferences) {
  for (const std::int64_t rows : {1, 7}) {
    constexpr std::int64_t columns = 19;
    const GuardedTensor x = random_tensor(GetParam(), {rows, columns}, 1);
    const GuardedTensor gamma = random_tensor(DType::f32, {columns}, 2);
    const GuardedTensor beta = random_tensor(DType::f32, {columns}, 3);
    const GuardedTensor dy = random_tensor(GetParam(), {rows, columns}, 4);
    const GuardedTensor y(GetParam(), {rows, columns}), dx(GetParam(), {rows, columns});
    const GuardedTensor mean(DType::f32, {rows}), rstd(DType::f32, {rows});
    const GuardedTensor dgamma(DType::f32, {columns}, Values(columns, 0.5));
    const GuardedTensor dbeta(DType::f32, {columns}, Values(columns, -0.25));
    const Values slope = dy.get(), xv = x.get(), gv = gamma.get(), bv = beta.get();
    const auto loss = [&](const Values& xs, const Values& gs, const Values& bs) {
      const Normalised out = layer_norm(xs, gs, bs, 1e-5);
      double sum = 0;
      for (std::size_t i = 0; i < slope.size(); ++i)
        sum += slope[i] * out.y[i];
      return sum;
    };
    Values expected_gamma = numeric_gradient(gv, [&](const Values& v) { return loss(xv, v, bv); });
    Values expected_beta = numeric_gradient(bv, [&](const Values& v) { return loss(xv, gv, v); });
    for (double& value : expected_gamma)
      value += 0.5;
    for (double& value : expected_beta)
      value -= 0.25;

    ops::layer_norm_forward(stream(), y, mean, rstd, x, gamma, beta);
    ops::layer_norm_backward(stream(), dx, dgamma, dbeta, dy, x, gamma, mean, rstd, false);

    expect_close(dx.get(), numeric_gradient(xv, [&](const Values& v) { return loss(v, gv, bv); }),
                 relative() + 1e-5, 1e-5);
    expect_close(dgamma.get(), expected_gamma, 1e-5, 1e-5);
    expect_close(dbeta.get(), expected_beta, 1e-5, 1e-5);
  }
}

TEST_P(LayerNorm, BackwardAccumulatesIntoTheResidualGradientWhenAsked) {
  constexpr std::int64_t rows = 70, columns = 33;
  const GuardedTensor x = random_tensor(GetParam(), {rows, columns}, 1);
  const GuardedTensor gamma = random_tensor(DType::f32, {columns}, 2);
  const GuardedTensor dy = random_tensor(GetParam(), {rows, columns}, 4);
  const GuardedTensor y(GetParam(), {rows, columns}), fresh(GetParam(), {rows, columns});
  const GuardedTensor grown = random_tensor(GetParam(), {rows, columns}, 5);
  const GuardedTensor mean(DType::f32, {rows}), rstd(DType::f32, {rows});
  const GuardedTensor dgamma(DType::f32, {columns}, Values(columns, 0.0));
  const GuardedTensor dbeta(DType::f32, {columns}, Values(columns, 0.0));
  ops::layer_norm_forward(stream(), y, mean, rstd, x, gamma, gamma);

  Values expected = grown.get();
  ops::layer_norm_backward(stream(), fresh, dgamma, dbeta, dy, x, gamma, mean, rstd, false);
  ops::layer_norm_backward(stream(), grown, dgamma, dbeta, dy, x, gamma, mean, rstd, true);

  const Values alone = fresh.get();
  for (std::size_t i = 0; i < expected.size(); ++i)
    expected[i] += alone[i];
  expect_close(grown.get(), expected, 3 * relative(), 1e-6 + relative());
  Values twice = dbeta.get(), once(columns, 0.0);
  const Values slope = dy.get();
  for (std::size_t i = 0; i < slope.size(); ++i)
    once[i % columns] += 2 * slope[i];
  expect_close(twice, once, 1e-5, 1e-5);
}

TEST_P(LayerNorm, BackwardInTwoPartsHasTheBitsOfTheWhole) {
  for (const bool accumulate : {false, true}) {
    for (const std::int64_t rows : {1, 3, 70}) {
      constexpr std::int64_t columns = 37;
      const GuardedTensor x = random_tensor(GetParam(), {rows, columns}, 1);
      const GuardedTensor gamma = random_tensor(DType::f32, {columns}, 2);
      const GuardedTensor dy = random_tensor(GetParam(), {rows, columns}, 3);
      const GuardedTensor y(GetParam(), {rows, columns});
      const GuardedTensor mean(DType::f32, {rows}), rstd(DType::f32, {rows});
      const auto make_dx = [&] { return random_tensor(GetParam(), {rows, columns}, 4); };
      const auto make_channels = [&] { return random_tensor(DType::f32, {columns}, 5); };
      const GuardedTensor dx = make_dx(), dx_alone = make_dx();
      const GuardedTensor dgamma = make_channels(), dbeta = make_channels();
      const GuardedTensor dgamma_alone = make_channels(), dbeta_alone = make_channels();
      ops::layer_norm_forward(stream(), y, mean, rstd, x, gamma, gamma);

      ops::layer_norm_backward(stream(), dx, dgamma, dbeta, dy, x, gamma, mean, rstd, accumulate);
      ops::layer_norm_backward(stream(), dx_alone, {}, {}, dy, x, gamma, mean, rstd, accumulate);
      ops::layer_norm_backward(stream(), {}, dgamma_alone, dbeta_alone, dy, x, gamma, mean, rstd,
                               accumulate);

      EXPECT_NE(dx.raw(), make_dx().raw());
      EXPECT_NE(dgamma.raw(), make_channels().raw());
      EXPECT_EQ(dx_alone.raw(), dx.raw());
      EXPECT_EQ(dgamma_alone.raw(), dgamma.raw());
      EXPECT_EQ(dbeta_alone.raw(), dbeta.raw());
    }
  }
}

TEST_P(LayerNorm, RefusesOperandsThatDoNotFit) {
  const GuardedTensor x(GetParam(), {4, 6}), y(GetParam(), {4, 6});
  const GuardedTensor mean(DType::f32, {4}), rstd(DType::f32, {3});
  const GuardedTensor gamma(DType::f32, {6}), beta(DType::f32, {5});
  expect_error([&] { ops::layer_norm_forward(stream(), y, mean, mean, x, gamma, beta); },
               {"beta", "(5)", "(6)"});
  expect_error([&] { ops::layer_norm_forward(stream(), y, mean, rstd, x, gamma, gamma); },
               {"rstd", "(3)", "4"});
  expect_error(
      [&] { ops::layer_norm_backward(stream(), x, gamma, gamma, y, x, gamma, mean, mean, false); },
      {"dx", "memory"});
  const auto backward = [&](const Tensor& dgamma, const Tensor& dbeta) {
    ops::layer_norm_backward(stream(), {}, dgamma, dbeta, y, x, gamma, mean, mean, false);
  };
  expect_error([&] { backward({}, {}); }, {"neither dx nor dgamma"});
  expect_error([&] { backward(gamma, {}); }, {"dbeta is absent"});
}

TEST_P(Embedding, ForwardAddsTokenAndPosition) {
  const GuardedTensor table = random_tensor(GetParam(), {5, 7}, 1);
  const GuardedTensor positions = random_tensor(GetParam(), {4, 7}, 2);
  const GuardedTensor tokens(DType::i32, {2, 3}, {4, 0, 4, 1, 3, 2});
  const GuardedTensor both(GetParam(), {2, 3, 7}), alone(GetParam(), {2, 3, 7});
  const Values tv = table.get(), pv = positions.get(), id = tokens.get();
  Values expected(42), expected_alone(42);
  for (std::size_t i = 0; i < 42; ++i) {
    const std::size_t row = i / 7, column = i % 7;
    expected_alone[i] = tv[static_cast<std::size_t>(id[row]) * 7 + column];
    expected[i] = expected_alone[i] + pv[row % 3 * 7 + column];
  }

  ops::embedding_forward(stream(), both, tokens, table, positions);
  ops::embedding_forward(stream(), alone, tokens, table);

  expect_close(both.get(), expected, relative(), 1e-7);
  expect_close(alone.get(), expected_alone, 0.0, 0.0);
}

TEST_P(Embedding, BackwardAddsEveryOccurrence) {
  const GuardedTensor dy = random_tensor(GetParam(), {2, 3, 7}, 1);
  const GuardedTensor tokens(DType::i32, {2, 3}, {4, 0, 4, 1, 4, 2});
  const GuardedTensor d_table = random_tensor(DType::f32, {5, 7}, 2);
  const GuardedTensor d_positions = random_tensor(DType::f32, {4, 7}, 3);
  Values table = d_table.get(), positions = d_positions.get();
  const Values gradient = dy.get(), id = tokens.get();
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const std::size_t row = i / 7, column = i % 7;
    table[static_cast<std::size_t>(id[row]) * 7 + column] += gradient[i];
    positions[row % 3 * 7 + column] += gradient[i];
  }

  ops::embedding_backward(stream(), d_table, d_positions, dy, tokens);

  expect_close(d_table.get(), table, 1e-6, 1e-6);
  expect_close(d_positions.get(), positions, 1e-6, 1e-6);
}

TEST_P(Embedding, RefusesTablesThatDoNotFit) {
  const GuardedTensor y(GetParam(), {2, 3, 7});
  const GuardedTensor tokens(DType::i32, {2, 3}, Values(6, 0.0));
  const GuardedTensor narrow(GetParam(), {5, 6}), table(GetParam(), {5, 7});
  const GuardedTensor few(GetParam(), {2, 7});
  expect_error([&] { ops::embedding_forward(stream(), y, tokens, narrow); }, {"(5, 6)", "(5, 7)"});
  expect_error([&] { ops::embedding_forward(stream(), y, tokens, table, few); },
               {"(2, 7)", "(2, 3, 7)"});
}

}  // namespace
}  // namespace trireme
