// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/norm/batch_norm.h"

#include "runtime/ops/elementwise/elementwise.h"
#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;

struct Reference {
  std::vector<double> mean, variance, y;
};

// x(rows, channels).
Reference forward_reference(const std::vector<double>& x, std::size_t channels,
                            const std::vector<double>& gamma, const std::vector<double>& beta,
                            const ops::BatchNormOptions& options) {
  const std::size_t rows = x.size() / channels;
  Reference r{std::vector<double>(channels), std::vector<double>(channels),
              std::vector<double>(x.size())};
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t n = 0; n < rows; ++n)
      r.mean[c] += x[n * channels + c];
    r.mean[c] /= static_cast<double>(rows);
    for (std::size_t n = 0; n < rows; ++n) {
      r.variance[c] += std::pow(x[n * channels + c] - r.mean[c], 2);
    }
    r.variance[c] /= static_cast<double>(rows);
    const double rstd = 1.0 / std::sqrt(r.variance[c] + static_cast<double>(options.epsilon));
    for (std::size_t n = 0; n < rows; ++n) {
      const double y = (x[n * channels + c] - r.mean[c]) * rstd * gamma[c] + beta[c];
      r.y[n * channels + c] = options.relu ? std::max(y, 0.0) : y;
    }
  }
  return r;
}

struct Gradient {
  std::vector<double> x, gamma, beta;
};

// `y` is the output that decides over ReLU's mask.
Gradient backward_reference(const std::vector<double>& x, const std::vector<double>& dy,
                            const std::vector<double>& y, const std::vector<double>& gamma,
                            const ops::BatchNormOptions& options) {
  const std::size_t channels = gamma.size(), rows = x.size() / channels;
  const Reference r = forward_reference(x, channels, gamma, std::vector<double>(channels), options);
  Gradient g{std::vector<double>(x.size()), std::vector<double>(channels),
             std::vector<double>(channels)};
  for (std::size_t c = 0; c < channels; ++c) {
    const double rstd = 1.0 / std::sqrt(r.variance[c] + static_cast<double>(options.epsilon));
    const auto normalized = [&](std::size_t i) { return (x[i] - r.mean[c]) * rstd; };
    const auto above = [&](std::size_t i) { return options.relu && y[i] <= 0.0 ? 0.0 : dy[i]; };
    for (std::size_t i = c; i < x.size(); i += channels) {
      g.gamma[c] += above(i) * normalized(i);
      g.beta[c] += above(i);
    }
    for (std::size_t i = c; i < x.size(); i += channels) {
      g.x[i] = gamma[c] * rstd *
               (above(i) - (g.beta[c] + normalized(i) * g.gamma[c]) / static_cast<double>(rows));
    }
  }
  return g;
}

class BatchNorm : public ::testing::TestWithParam<std::tuple<DType, Shape, bool>> {
 protected:
  DType dtype = std::get<0>(GetParam());
  Shape shape = std::get<1>(GetParam());
  ops::BatchNormOptions options{.epsilon = 1e-5F, .relu = std::get<2>(GetParam())};
  Shape channels{shape[3]};
  GuardedTensor x = random_tensor(dtype, shape, 1, 0.5, 2.5);
  GuardedTensor gamma = random_tensor(DType::f32, channels, 2, 0.5, 1.5);
  GuardedTensor beta = random_tensor(DType::f32, channels, 3);
  GuardedTensor mean{DType::f32, channels}, variance{DType::f32, channels}, y{dtype, shape};
  ops::BatchNormChannels by{gamma, beta, mean, variance};

  void forward(const ops::BatchNormSummand& summand = {}) const {
    ops::batch_norm_statistics(stream(), mean, variance, x);
    ops::batch_norm_apply(stream(), y, x, by, options, summand);
  }
  [[nodiscard]] Reference reference() const {
    return forward_reference(x.get(), static_cast<std::size_t>(shape[3]), gamma.get(), beta.get(),
                             options);
  }
};

std::string label(const ::testing::TestParamInfo<std::tuple<DType, Shape, bool>>& info) {
  const Shape& s = std::get<1>(info.param);
  return fmt::format("{}_{}x{}x{}x{}{}", name_of(std::get<0>(info.param)), s[0], s[1], s[2], s[3],
                     std::get<2>(info.param) ? "_relu" : "");
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, BatchNorm,
    ::testing::Combine(::testing::Values(DType::f32, DType::bf16, DType::f16),
                       ::testing::Values(Shape{1, 3, 1, 1}, Shape{2, 3, 3, 7}, Shape{3, 5, 7, 17},
                                         Shape{2, 20, 20, 16}, Shape{2, 4, 9, 33},
                                         Shape{1, 5, 5, 200}, Shape{2, 3, 5, 264},
                                         Shape{64, 14, 14, 3}),
                       ::testing::Bool()),
    label);

TEST_P(BatchNorm, ForwardMatchesTheReference) {
  const Reference expected = reference();

  forward();

  expect_close(mean.get(), expected.mean, 1e-6, 1e-7);
  expect_close(variance.get(), expected.variance, 1e-5, 1e-7);
  expect_close(y.get(), expected.y, rounding_of(dtype), dtype == DType::bf16 ? 1e-3 : 1e-5);
}

TEST_P(BatchNorm, IsTheSameInPlace) {
  forward();

  ops::batch_norm_apply(stream(), x, x, by, options);

  EXPECT_EQ(x.raw(), y.raw());
}

// The sum and the ReLU of a residual block, as separate passes.
TEST_P(BatchNorm, ASummandTakenInPassingHasTheBitsOfSeparatePasses) {
  if (!options.relu) GTEST_SKIP() << "of ReLU";
  const GuardedTensor other = random_tensor(dtype, shape, 9), apart(dtype, shape),
                      shortcut(dtype, shape);
  const GuardedTensor gamma2 = random_tensor(DType::f32, channels, 10, 0.5, 1.5);
  const ops::BatchNormChannels by2{gamma2, beta, mean, variance};
  ops::batch_norm_statistics(stream(), mean, variance, x);
  ops::batch_norm_apply(stream(), apart, x, by, {.relu = false});
  ops::batch_norm_apply(stream(), shortcut, other, by2, {.relu = false});

  ops::batch_norm_apply(stream(), y, x, by, options, {.x = shortcut});
  ops::relu_forward(stream(), apart, apart, shortcut);
  EXPECT_EQ(y.raw(), apart.raw());

  ops::batch_norm_apply(stream(), y, x, by, options, {.x = other, .channels = by2});
  EXPECT_EQ(y.raw(), apart.raw());

  ops::batch_norm_apply(stream(), other, x, by, options, {.x = other, .channels = by2});
  EXPECT_EQ(other.raw(), apart.raw());
}

TEST_P(BatchNorm, BackwardMatchesTheReferenceAndAccumulatesPerChannel) {
  const GuardedTensor dy = random_tensor(dtype, shape, 4), dx(dtype, shape);
  const GuardedTensor dgamma = random_tensor(DType::f32, channels, 5);
  const GuardedTensor dbeta = random_tensor(DType::f32, channels, 6);
  forward();
  Gradient expected = backward_reference(x.get(), dy.get(), y.get(), gamma.get(), options);
  for (std::size_t c = 0; c < expected.gamma.size(); ++c) {
    expected.gamma[c] += dgamma.get()[c];
    expected.beta[c] += dbeta.get()[c];
  }

  ops::batch_norm_backward(stream(), dx, dgamma, dbeta, dy, x, by, options);

  expect_close(dx.get(), expected.x, rounding_of(dtype), 1e-4);
  expect_close(dgamma.get(), expected.gamma, 1e-5, 2e-4);
  expect_close(dbeta.get(), expected.beta, 1e-5, 1e-4);
}

TEST_P(BatchNorm, BackwardIsTheSameInPlaceAndEveryTime) {
  const GuardedTensor dy = random_tensor(dtype, shape, 4), dx(dtype, shape);
  const GuardedTensor dgamma(DType::f32, channels,
                             std::vector<double>(static_cast<std::size_t>(shape[3])));
  const GuardedTensor dbeta(DType::f32, channels,
                            std::vector<double>(static_cast<std::size_t>(shape[3])));
  const GuardedTensor other1 = random_tensor(DType::f32, channels, 7),
                      other2 = random_tensor(DType::f32, channels, 8);
  forward();

  ops::batch_norm_backward(stream(), dx, dgamma, dbeta, dy, x, by, options);
  ops::batch_norm_backward(stream(), dy, other1, other2, dy, x, by, options);

  EXPECT_EQ(dx.raw(), dy.raw());
}

// With dy of ones, dbeta counts the passed elements.
TEST_P(BatchNorm, BackwardPassesWhatForwardLeftPositive) {
  if (!options.relu) GTEST_SKIP() << "of ReLU";
  const auto n = static_cast<std::size_t>(shape.count());
  const GuardedTensor dy(dtype, shape, std::vector<double>(n, 1.0)), dx(dtype, shape);
  const std::vector<double> zeros(static_cast<std::size_t>(shape[3]));
  const GuardedTensor dgamma(DType::f32, channels, zeros), dbeta(DType::f32, channels, zeros);
  forward();

  ops::batch_norm_backward(stream(), dx, dgamma, dbeta, dy, x, by, options);

  std::vector<double> positive = zeros;
  const std::vector<double> out = y.get();
  for (std::size_t i = 0; i < n; ++i)
    positive[i % zeros.size()] += out[i] > 0.0 ? 1.0 : 0.0;
  EXPECT_EQ(dbeta.get(), positive);
}

TEST_P(BatchNorm, BackwardOfASumHasTheBitsOfSeparatePassesAndLeavesTheSummandsGradient) {
  if (!options.relu) GTEST_SKIP() << "of ReLU";
  const GuardedTensor summand = random_tensor(dtype, shape, 9), dy = random_tensor(dtype, shape, 4);
  const GuardedTensor masked(dtype, shape), dx(dtype, shape), expected_dx(dtype, shape);
  const std::vector<double> zeros(static_cast<std::size_t>(shape[3]));
  const GuardedTensor dgamma(DType::f32, channels, zeros), dbeta(DType::f32, channels, zeros);
  const GuardedTensor expected_dgamma(DType::f32, channels, zeros);
  const GuardedTensor expected_dbeta(DType::f32, channels, zeros);
  forward({.x = summand});
  ops::relu_backward(stream(), masked, dy, y);
  ops::batch_norm_backward(stream(), expected_dx, expected_dgamma, expected_dbeta, masked, x, by,
                           {.relu = false});

  ops::batch_norm_backward(stream(), dx, dgamma, dbeta, dy, x, by, options, y);

  EXPECT_EQ(dy.raw(), masked.raw());
  EXPECT_EQ(dx.raw(), expected_dx.raw());
  EXPECT_EQ(dgamma.raw(), expected_dgamma.raw());
  EXPECT_EQ(dbeta.raw(), expected_dbeta.raw());
}

// Values that the dtype rounds to 0, and their neighbours: y decides, though backward does not
// read it.
TEST(BatchNormRelu, BackwardCutsOffExactlyWhereTheRoundedResultIsZero) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const Shape shape{1, 1, 8, 1}, channels{1};
    const double tiny = dtype == DType::f16 ? 0x1p-24 : dtype == DType::bf16 ? 0x1p-133 : 0x1p-149;
    const GuardedTensor x(dtype, shape,
                          {-2 * tiny, -tiny, 0.0, tiny, 2 * tiny, 3 * tiny, 1.0, -1.0});
    const GuardedTensor gamma(DType::f32, channels, {0.5}), beta(DType::f32, channels, {0.0});
    const GuardedTensor mean(DType::f32, channels, {0.0}), variance(DType::f32, channels, {1.0});
    const ops::BatchNormChannels by{gamma, beta, mean, variance};
    const ops::BatchNormOptions options{.epsilon = 0.0F, .relu = true};
    const GuardedTensor y(dtype, shape), dx(dtype, shape), expected(dtype, shape);
    const GuardedTensor dgamma(DType::f32, channels, {0.0}), dbeta(DType::f32, channels, {0.0});
    const GuardedTensor dy(dtype, shape, std::vector<double>(8, 1.0)), masked(dtype, shape);
    ops::batch_norm_apply(stream(), y, x, by, options);
    ops::relu_backward(stream(), masked, dy, y);
    ops::batch_norm_backward(stream(), expected, dgamma, dbeta, masked, x, by, {.epsilon = 0.0F});

    ops::batch_norm_backward(stream(), dx, dgamma, dbeta, dy, x, by, options);

    EXPECT_EQ(dx.raw(), expected.raw()) << name_of(dtype);
    EXPECT_EQ(y.get()[3], 0.0) << name_of(dtype);  // half of the smallest number
    EXPECT_GT(y.get()[4], 0.0) << name_of(dtype);
  }
}

TEST(BatchNormGradients, ReferenceAgreesWithFiniteDifferences) {
  for (const bool relu : {false, true}) {
    const ops::BatchNormOptions options{.epsilon = 1e-5F, .relu = relu};
    const std::vector<double> x = random_values(36, 1, DType::f32),
                              dy = random_values(36, 2, DType::f32);
    const std::vector<double> gamma = random_values(4, 3, DType::f32, 0.5, 1.5);
    const std::vector<double> beta(4);
    const auto loss = [&](const std::vector<double>& xs, const std::vector<double>& gs,
                          const std::vector<double>& bs) {
      const Reference r = forward_reference(xs, 4, gs, bs, options);
      double sum = 0.0;
      for (std::size_t i = 0; i < r.y.size(); ++i)
        sum += r.y[i] * dy[i];
      return sum;
    };

    const Gradient g =
        backward_reference(x, dy, forward_reference(x, 4, gamma, beta, options).y, gamma, options);

    expect_close(g.x,
                 numeric_gradient(
                     x, [&](const auto& at) { return loss(at, gamma, beta); }, 1e-6),
                 1e-4, 1e-6);
    expect_close(g.gamma,
                 numeric_gradient(
                     gamma, [&](const auto& at) { return loss(x, at, beta); }, 1e-6),
                 1e-4, 1e-6);
    expect_close(g.beta,
                 numeric_gradient(
                     beta, [&](const auto& at) { return loss(x, gamma, at); }, 1e-6),
                 1e-4, 1e-6);
  }
}

TEST(BatchNormPrecision, SurvivesAMeanFarLargerThanTheDeviation) {
  const Shape shape{4, 16, 16, 5};
  const GuardedTensor x = random_tensor(DType::f32, shape, 1, 9999.0, 10001.0);
  const GuardedTensor y(DType::f32, shape), mean(DType::f32, {5}), variance(DType::f32, {5});
  const GuardedTensor gamma(DType::f32, {5}, std::vector<double>(5, 1.0));
  const GuardedTensor beta(DType::f32, {5}, std::vector<double>(5, 0.0));
  const Reference expected = forward_reference(x.get(), 5, gamma.get(), beta.get(), {});

  ops::batch_norm_statistics(stream(), mean, variance, x);
  ops::batch_norm_apply(stream(), y, x, {gamma, beta, mean, variance}, {});

  expect_close(variance.get(), expected.variance, 1e-5, 0.0);
  expect_close(y.get(), expected.y, 1e-4, 2e-3);  // half an ulp of a mean of 10000 is 5e-4
}

// Enough rows that every thread of a kernel joins several runs of them.
TEST(BatchNormPrecision, HoldsOverManyRows) {
  const Shape shape{1, 80, 100, 257}, channels{257};
  const ops::BatchNormOptions options{.epsilon = 1e-5F, .relu = true};
  const GuardedTensor x = random_tensor(DType::f32, shape, 1, 99.0, 101.0), y(DType::f32, shape);
  const GuardedTensor mean(DType::f32, channels), variance(DType::f32, channels);
  const GuardedTensor gamma = random_tensor(DType::f32, channels, 2, 0.5, 1.5);
  const std::vector<double> zeros(257);
  const GuardedTensor beta(DType::f32, channels, zeros), dbeta(DType::f32, channels, zeros);
  const GuardedTensor dgamma(DType::f32, channels, zeros);
  const GuardedTensor dy = random_tensor(DType::f32, shape, 3), dx(DType::f32, shape);
  const Reference expected = forward_reference(x.get(), 257, gamma.get(), beta.get(), options);

  const ops::BatchNormChannels by{gamma, beta, mean, variance};
  ops::batch_norm_statistics(stream(), mean, variance, x);
  ops::batch_norm_apply(stream(), y, x, by, options);
  ops::batch_norm_backward(stream(), dx, dgamma, dbeta, dy, x, by, options);

  const Gradient gradient = backward_reference(x.get(), dy.get(), y.get(), gamma.get(), options);
  expect_close(mean.get(), expected.mean, 1e-7, 0.0);
  expect_close(variance.get(), expected.variance, 1e-5, 0.0);
  expect_close(y.get(), expected.y, 0.0, 1e-4);
  expect_close(dx.get(), gradient.x, 0.0, 1e-4);
  expect_close(dgamma.get(), gradient.gamma, 1e-5, 5e-3);
  expect_close(dbeta.get(), gradient.beta, 1e-5, 1e-3);
}

TEST(BatchNormStatistics, AreAddedToTheRunningOnesWeightedAndUnbiased) {
  const Shape channels{2};
  const GuardedTensor x(DType::f32, {5, 1, 1, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  const GuardedTensor mean(DType::f32, channels), variance(DType::f32, channels);
  const GuardedTensor mean_sum(DType::f32, channels, {10.0, 20.0}),
      variance_sum(DType::f32, channels, {1.0, 1.0});

  ops::batch_norm_statistics(stream(), mean, variance, x,
                             {.mean_sum = mean_sum, .variance_sum = variance_sum, .weight = 0.5F});
  EXPECT_EQ(mean.get(), (std::vector<double>{5.0, 6.0}));
  EXPECT_EQ(variance.get(), (std::vector<double>{8.0, 8.0}));
  EXPECT_EQ(mean_sum.get(), (std::vector<double>{12.5, 23.0}));
  EXPECT_EQ(variance_sum.get(), (std::vector<double>{6.0, 6.0}));

  // One value has no unbiased variance.
  const GuardedTensor one(DType::f32, {1, 1, 1, 2}, {3, 4});
  ops::batch_norm_statistics(stream(), mean, variance, one,
                             {.mean_sum = mean_sum, .variance_sum = variance_sum});
  EXPECT_EQ(mean_sum.get(), (std::vector<double>{15.5, 27.0}));
  EXPECT_EQ(variance_sum.get(), (std::vector<double>{6.0, 6.0}));
}

TEST(BatchNormErrors, NameBothShapes) {
  const GuardedTensor x(DType::f32, {2, 3, 3, 4}), y(DType::f32, {2, 3, 3, 4}), c(DType::f32, {4});
  const GuardedTensor d(DType::f32, {4}), short_(DType::f32, {3}), flat(DType::f32, {18, 4});
  const ops::BatchNormChannels by{c, c, c, c};

  expect_error([&] { ops::batch_norm_statistics(stream(), short_, c, x); },
               {"batch_norm_statistics", "mean", "(3)", "(4)"});
  expect_error(
      [&] {
        ops::batch_norm_apply(stream(), y, x, {short_, c, c, c}, {});
      },
      {"batch_norm_apply", "gamma", "(3)", "(4)"});
  expect_error([&] { ops::batch_norm_apply(stream(), y, flat, by, {}); }, {"x", "(18, 4)"});
  expect_error([&] { ops::batch_norm_apply(stream(), y, x, by, {}, {.x = flat}); },
               {"summand", "(18, 4)"});
  expect_error([&] { ops::batch_norm_backward(stream(), x, c, d, y, x, by, {}); },
               {"shares memory"});
  expect_error([&] { ops::batch_norm_backward(stream(), y, c, d, y, x, by, {.relu = true}, x); },
               {"dx", "dy"});
}

}  // namespace
}  // namespace trireme
