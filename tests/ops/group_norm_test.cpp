// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/norm/group_norm.h"

#include "runtime/ops/random/init.h"
#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;
using Values = std::vector<double>;

// x(samples, rows, channels).
struct Sizes {
  std::size_t samples, rows, channels, groups;

  [[nodiscard]] std::size_t width() const { return channels / groups; }
  // Calls f(index into x) for the values of a group.
  template <typename F>
  void each(std::size_t sample, std::size_t group, F f) const {
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t c = 0; c < width(); ++c)
        f((sample * rows + row) * channels + group * width() + c);
    }
  }
};

struct Reference {
  Values mean, variance, y;  // mean and variance: (samples, channels)
};

Reference forward_reference(const Values& x, const Sizes& sizes, const Values& gamma,
                            const Values& beta, const ops::GroupNormOptions& options) {
  Reference r{Values(sizes.samples * sizes.channels), Values(sizes.samples * sizes.channels),
              Values(x.size())};
  const auto count = static_cast<double>(sizes.rows * sizes.width());
  for (std::size_t sample = 0; sample < sizes.samples; ++sample) {
    for (std::size_t group = 0; group < sizes.groups; ++group) {
      double mean = 0, variance = 0;
      sizes.each(sample, group, [&](std::size_t i) { mean += x[i] / count; });
      sizes.each(sample, group,
                 [&](std::size_t i) { variance += std::pow(x[i] - mean, 2) / count; });
      const double rstd = 1 / std::sqrt(variance + static_cast<double>(options.epsilon));
      sizes.each(sample, group, [&](std::size_t i) {
        const std::size_t c = i % sizes.channels;
        const double y = (x[i] - mean) * rstd * gamma[c] + beta[c];
        r.y[i] = options.relu ? std::max(y, 0.0) : y;
        r.mean[sample * sizes.channels + c] = mean;
        r.variance[sample * sizes.channels + c] = variance;
      });
    }
  }
  return r;
}

struct Gradient {
  Values x, gamma, beta;
};

// `y` decides over ReLU's mask.
Gradient backward_reference(const Values& x, const Values& dy, const Values& y, const Sizes& sizes,
                            const Values& gamma, const ops::GroupNormOptions& options) {
  const Reference r = forward_reference(x, sizes, gamma, Values(sizes.channels), options);
  Gradient g{Values(x.size()), Values(sizes.channels), Values(sizes.channels)};
  const auto count = static_cast<double>(sizes.rows * sizes.width());
  for (std::size_t sample = 0; sample < sizes.samples; ++sample) {
    for (std::size_t group = 0; group < sizes.groups; ++group) {
      const std::size_t at = sample * sizes.channels + group * sizes.width();
      const double rstd = 1 / std::sqrt(r.variance[at] + static_cast<double>(options.epsilon));
      const auto normalized = [&](std::size_t i) { return (x[i] - r.mean[at]) * rstd; };
      const auto above = [&](std::size_t i) { return options.relu && y[i] <= 0.0 ? 0.0 : dy[i]; };
      double sum = 0, product = 0;
      sizes.each(sample, group, [&](std::size_t i) {
        const std::size_t c = i % sizes.channels;
        g.gamma[c] += above(i) * normalized(i);
        g.beta[c] += above(i);
        sum += gamma[c] * above(i) / count;
        product += gamma[c] * above(i) * normalized(i) / count;
      });
      sizes.each(sample, group, [&](std::size_t i) {
        g.x[i] = rstd * (gamma[i % sizes.channels] * above(i) - sum - normalized(i) * product);
      });
    }
  }
  return g;
}

// Samples, positions and channels; groups; ReLU.
using Case = std::tuple<DType, std::pair<Shape, std::int64_t>, bool>;

class GroupNorm : public ::testing::TestWithParam<Case> {
 protected:
  DType dtype = std::get<0>(GetParam());
  Shape shape = std::get<1>(GetParam()).first;
  ops::GroupNormOptions options{.groups = std::get<1>(GetParam()).second,
                                .relu = std::get<2>(GetParam())};
  Shape channels{shape.back()}, statistics{shape[0], shape.back()};
  Sizes sizes{static_cast<std::size_t>(shape[0]), static_cast<std::size_t>(shape.rows() / shape[0]),
              static_cast<std::size_t>(shape.back()), static_cast<std::size_t>(options.groups)};
  GuardedTensor x = random_tensor(dtype, shape, 1, 0.5, 2.5);
  GuardedTensor gamma = random_tensor(DType::f32, channels, 2, 0.5, 1.5);
  GuardedTensor beta = random_tensor(DType::f32, channels, 3);
  GuardedTensor mean{DType::f32, statistics}, variance{DType::f32, statistics}, y{dtype, shape};
  ops::BatchNormChannels by{gamma, beta, mean, variance};
};

INSTANTIATE_TEST_SUITE_P(Shapes, GroupNorm,
                         ::testing::Combine(::testing::Values(DType::f32, DType::bf16, DType::f16),
                                            ::testing::Values(std::pair{Shape{3, 5, 7, 15}, 15L},
                                                              std::pair{Shape{3, 5, 7, 15}, 5L},
                                                              std::pair{Shape{2, 3, 5, 3, 21}, 1L},
                                                              std::pair{Shape{2, 3, 5, 7, 32}, 32L},
                                                              std::pair{Shape{5, 9, 3, 264}, 6L},
                                                              std::pair{Shape{2, 40, 41, 3}, 3L},
                                                              std::pair{Shape{3, 1, 2, 130}, 2L}),
                                            ::testing::Bool()),
                         [](const auto& info) {
                           return fmt::format("{}_case{}{}", name_of(std::get<0>(info.param)),
                                              info.index / 2 % 7,
                                              std::get<2>(info.param) ? "_relu" : "");
                         });

TEST_P(GroupNorm, ForwardMatchesTheReference) {
  const Reference expected = forward_reference(x.get(), sizes, gamma.get(), beta.get(), options);

  ops::group_norm_forward(stream(), y, x, by, options);

  expect_close(mean.get(), expected.mean, 1e-6, 1e-7);
  expect_close(variance.get(), expected.variance, 1e-5, 1e-7);
  expect_close(y.get(), expected.y, rounding_of(dtype), dtype == DType::bf16 ? 1e-3 : 1e-5);
}

TEST_P(GroupNorm, BackwardMatchesTheReferenceAndAccumulatesPerChannel) {
  const GuardedTensor dy = random_tensor(dtype, shape, 4), dx(dtype, shape);
  const GuardedTensor dgamma = random_tensor(DType::f32, channels, 5);
  const GuardedTensor dbeta = random_tensor(DType::f32, channels, 6);
  const GuardedTensor other1 = random_tensor(DType::f32, channels, 5);
  const GuardedTensor other2 = random_tensor(DType::f32, channels, 6);
  ops::group_norm_forward(stream(), y, x, by, options);
  Gradient expected = backward_reference(x.get(), dy.get(), y.get(), sizes, gamma.get(), options);
  for (std::size_t c = 0; c < expected.gamma.size(); ++c) {
    expected.gamma[c] += dgamma.get()[c];
    expected.beta[c] += dbeta.get()[c];
  }

  ops::group_norm_backward(stream(), dx, dgamma, dbeta, dy, x, by, options);

  expect_close(dx.get(), expected.x, rounding_of(dtype), 1e-4);
  expect_close(dgamma.get(), expected.gamma, 1e-5, 2e-4);
  expect_close(dbeta.get(), expected.beta, 1e-5, 1e-4);

  ops::group_norm_backward(stream(), dy, other1, other2, dy, x, by, options);
  EXPECT_EQ(dx.raw(), dy.raw());
  EXPECT_EQ(dgamma.raw(), other1.raw());
  EXPECT_EQ(dbeta.raw(), other2.raw());
}

// A group for each channel is batch norm of each sample: the same kernels, so the same bits.
TEST_P(GroupNorm, OfOneChannelHasTheBitsOfBatchNormOfEachSample) {
  if (options.groups != shape.back() || shape.rank() != 4 || shape[0] == 2)
    GTEST_SKIP() << "of one channel, of images whose samples a GPU cuts alike";
  ops::group_norm_forward(stream(), y, x, by, options);

  for (std::int64_t sample = 0; sample < shape[0]; ++sample) {
    const auto of = [&](const Tensor& all) {
      return all.range(sample * shape.count() / shape[0], shape.count() / shape[0])
          .reshaped({1, shape[1], shape[2], shape[3]});
    };
    const GuardedTensor mean1(DType::f32, channels), variance1(DType::f32, channels);
    const GuardedTensor expected(dtype, {1, shape[1], shape[2], shape[3]});
    ops::batch_norm_statistics(stream(), mean1, variance1, of(x));
    ops::batch_norm_apply(stream(), expected, of(x), {gamma, beta, mean1, variance1},
                          {.relu = options.relu});
    const auto first = static_cast<std::ptrdiff_t>(sample * shape.count() / shape[0]);
    const Values all = y.get(), one = expected.get();
    EXPECT_TRUE(std::equal(one.begin(), one.end(), all.begin() + first));
  }
}

// The rows of each sample in three parts of different lengths, as slabs of samples that are cut.
class Parts {
 public:
  Parts(const Shape& shape)  // NOLINT(google-explicit-constructor)
      : shape_{shape[0], shape.rows() / shape[0], 1, shape.back()} {}

  static constexpr std::int64_t count = 3;
  [[nodiscard]] Shape shape(std::int64_t part) const {
    return {shape_[0], rows(part), 1, shape_[3]};
  }
  // Copies between a part and the whole.
  void copy(Stream& stream, const Tensor& part, const Tensor& whole, std::int64_t p,
            bool to_part) const {
    const auto each = static_cast<std::size_t>(shape_[3]) * size_of(whole.dtype);
    const auto length = static_cast<std::size_t>(rows(p)) * each;
    for (std::int64_t n = 0; n < shape_[0]; ++n) {
      auto* const in_part =
          static_cast<std::byte*>(part.data) + static_cast<std::size_t>(n) * length;
      auto* const in_whole = static_cast<std::byte*>(whole.data) +
                             static_cast<std::size_t>(n * shape_[1] + first(p)) * each;
      stream.device().copy(stream, to_part ? in_part : in_whole, to_part ? in_whole : in_part,
                           length);
    }
  }
  // (3, rows N, C), each sample's rows by write(rows of the sample, pixels of the part).
  template <typename Write>
  void fill(const Tensor& parts, std::int64_t rows_of_sample, std::int64_t p, Write write) const {
    const std::int64_t size = rows_of_sample * shape_[3];
    for (std::int64_t n = 0; n < shape_[0]; ++n)
      write(parts.range((p * shape_[0] + n) * size, size).reshaped({rows_of_sample, shape_[3]}), n);
  }
  [[nodiscard]] Tensor sample(const Tensor& part, std::int64_t n) const {
    const std::int64_t size = part.count() / shape_[0];
    return part.range(n * size, size).reshaped({1, size / shape_[3], 1, shape_[3]});
  }
  [[nodiscard]] std::int64_t values() const { return shape_[1]; }

 private:
  [[nodiscard]] std::int64_t first(std::int64_t part) const {
    return part == 0 ? 0 : part == 1 ? 1 : std::max<std::int64_t>(2, shape_[1] / 3);
  }
  [[nodiscard]] std::int64_t rows(std::int64_t part) const {
    return (part == 2 ? shape_[1] : first(part + 1)) - first(part);
  }
  Shape shape_;
};

TEST_P(GroupNorm, OfGivenPartsIsThatOfWholeSamples) {
  const Parts of(shape);
  if (of.values() < 3) GTEST_SKIP() << "of three rows at least";
  const std::int64_t width = shape.back();
  const GuardedTensor dy = random_tensor(dtype, shape, 4), dx(dtype, shape), whole_dx(dtype, shape),
                      parts_y(dtype, shape), dgamma = random_tensor(DType::f32, channels, 5),
                      dbeta = random_tensor(DType::f32, channels, 6),
                      whole_dgamma = random_tensor(DType::f32, channels, 5),
                      whole_dbeta = random_tensor(DType::f32, channels, 6);
  const GuardedTensor statistics_of(DType::f32, {Parts::count, 3 * shape[0], width}),
      sums_of(DType::f32, {Parts::count, 2 * shape[0], width}), mean1(DType::f32, statistics),
      variance1(DType::f32, statistics);
  const ops::BatchNormChannels joined{gamma, beta, mean1, variance1};
  const auto row = [&](const Tensor& rows, std::int64_t i) {
    return rows.range(i * width, width).reshaped(channels);
  };
  ops::group_norm_forward(stream(), y, x, by, options);
  ops::group_norm_backward(stream(), whole_dx, whole_dgamma, whole_dbeta, dy, x, by, options);

  for (std::int64_t p = 0; p < Parts::count; ++p) {
    const GuardedTensor part(dtype, of.shape(p));
    of.copy(stream(), part, x, p, true);
    of.fill(statistics_of, 3, p, [&](const Tensor& rows, std::int64_t n) {
      const Tensor pixels = of.sample(part, n);
      ops::batch_norm_statistics(stream(), row(rows, 0), row(rows, 1), pixels);
      ops::fill_constant(stream(), row(rows, 2), static_cast<float>(pixels.shape.rows()));
    });
    stream().synchronize();  // before the part ends
  }
  const auto each = [&](auto use) {
    for (std::int64_t p = 0; p < Parts::count; ++p) {
      const GuardedTensor part(dtype, of.shape(p)), above(dtype, of.shape(p)),
          to(dtype, of.shape(p));
      of.copy(stream(), part, x, p, true);
      of.copy(stream(), above, dy, p, true);
      use(p, part, above, to);
      stream().synchronize();
    }
  };
  each([&](std::int64_t p, const Tensor& part, const Tensor& above, const Tensor& to) {
    ops::group_norm_forward(stream(), to, part, joined, options, {statistics_of, of.values()});
    of.copy(stream(), to, parts_y, p, false);
    of.fill(sums_of, 2, p, [&](const Tensor& rows, std::int64_t n) {
      ops::batch_norm_gradient_sums(stream(), rows, of.sample(above, n), of.sample(part, n),
                                    {gamma, beta, row(mean1, n), row(variance1, n)},
                                    {.epsilon = options.epsilon, .relu = options.relu});
    });
  });
  Tensor once1 = dgamma, once2 = dbeta;
  each([&](std::int64_t p, const Tensor& part, const Tensor& above, const Tensor& to) {
    ops::group_norm_backward(stream(), to, once1, once2, above, part, joined, options,
                             {sums_of, of.values()});
    once1 = once2 = {};
    of.copy(stream(), to, dx, p, false);
  });

  expect_close(mean1.get(), mean.get(), 1e-6, 1e-6);
  expect_close(variance1.get(), variance.get(), 1e-5, 1e-6);
  expect_close(parts_y.get(), y.get(), 2 * rounding_of(dtype), dtype == DType::f32 ? 1e-5 : 1e-3);
  expect_close(dx.get(), whole_dx.get(), 2 * rounding_of(dtype), dtype == DType::f32 ? 1e-5 : 1e-3);
  expect_close(dgamma.get(), whole_dgamma.get(), 1e-5, 2e-4);
  expect_close(dbeta.get(), whole_dbeta.get(), 1e-5, 1e-4);
}

TEST(GroupNormGradients, ReferenceAgreesWithFiniteDifferences) {
  for (const bool relu : {false, true}) {
    const Sizes sizes{3, 5, 6, 2};
    const ops::GroupNormOptions options{.groups = 2, .relu = relu};
    const Values x = random_values(90, 1, DType::f32), dy = random_values(90, 2, DType::f32);
    const Values gamma = random_values(6, 3, DType::f32, 0.5, 1.5), beta(6);
    const auto loss = [&](const Values& xs, const Values& gs, const Values& bs) {
      const Reference r = forward_reference(xs, sizes, gs, bs, options);
      double sum = 0.0;
      for (std::size_t i = 0; i < r.y.size(); ++i)
        sum += r.y[i] * dy[i];
      return sum;
    };

    const Gradient g = backward_reference(
        x, dy, forward_reference(x, sizes, gamma, beta, options).y, sizes, gamma, options);

    const auto close = [](const Values& analytic, const Values& numeric) {
      expect_close(analytic, numeric, 1e-4, 1e-6);
    };
    close(g.x, numeric_gradient(
                   x, [&](const auto& at) { return loss(at, gamma, beta); }, 1e-6));
    close(g.gamma, numeric_gradient(
                       gamma, [&](const auto& at) { return loss(x, at, beta); }, 1e-6));
    close(g.beta, numeric_gradient(
                      beta, [&](const auto& at) { return loss(x, gamma, at); }, 1e-6));
  }
}

TEST(GroupNormPrecision, SurvivesAMeanFarLargerThanTheDeviation) {
  const Shape shape{2, 16, 16, 6};
  const ops::GroupNormOptions options{.groups = 2};
  const GuardedTensor x = random_tensor(DType::f32, shape, 1, 9999.0, 10001.0);
  const GuardedTensor y(DType::f32, shape), mean(DType::f32, {2, 6}), variance(DType::f32, {2, 6});
  const GuardedTensor gamma(DType::f32, {6}, Values(6, 1.0)), beta(DType::f32, {6}, Values(6, 0.0));
  const Reference expected =
      forward_reference(x.get(), {2, 256, 6, 2}, gamma.get(), beta.get(), options);

  ops::group_norm_forward(stream(), y, x, {gamma, beta, mean, variance}, options);

  expect_close(variance.get(), expected.variance, 1e-5, 0.0);
  expect_close(y.get(), expected.y, 1e-4, 2e-3);
}

TEST(GroupNormErrors, NameTheSizes) {
  const GuardedTensor x(DType::f32, {2, 3, 3, 4}), y(DType::f32, {2, 3, 3, 4}), c(DType::f32, {4});
  const GuardedTensor m(DType::f32, {2, 4}), v(DType::f32, {2, 4}), flat(DType::f32, {18, 4});

  expect_error(
      [&] {
        ops::group_norm_forward(stream(), y, x, {c, c, m, v}, {.groups = 3});
      },
      {"group_norm_forward", "4 channels in 3 groups"});
  expect_error(
      [&] {
        ops::group_norm_forward(stream(), y, x, {c, c, c, v}, {.groups = 2});
      },
      {"mean", "(4)", "(2, 4)"});
  expect_error(
      [&] {
        ops::group_norm_forward(stream(), flat, flat, {c, c, m, v}, {});
      },
      {"x", "(18, 4)"});
  expect_error(
      [&] {
        ops::group_norm_backward(stream(), x, c, y, y, x, {c, c, m, v}, {});
      },
      {"group_norm_backward"});
  expect_error(
      [&] {
        ops::group_norm_forward(stream(), y, x, {c, c, m, v}, {}, {flat, 9});
      },
      {"parts"});
}

}  // namespace
}  // namespace trireme
