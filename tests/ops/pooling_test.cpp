// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/convolution/pooling.h"

#include <limits>

#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;

struct Case {
  Shape x;
  ops::PoolingOptions options;
};

class MaxPool : public ::testing::TestWithParam<std::tuple<DType, Case>> {
 protected:
  DType dtype = std::get<0>(GetParam());
  Case c = std::get<1>(GetParam());
  Shape out = ops::max_pool_output_shape(c.x, c.options);

  // The x index of position `k` of the window at (n, oh, ow, channel); -1 outside.
  [[nodiscard]] std::int64_t source(std::int64_t n, std::int64_t oh, std::int64_t ow,
                                    std::int64_t channel, std::int64_t k) const {
    const std::int64_t h = oh * c.options.stride - c.options.padding + k / c.options.window;
    const std::int64_t w = ow * c.options.stride - c.options.padding + k % c.options.window;
    if (h < 0 || h >= c.x[1] || w < 0 || w >= c.x[2]) return -1;
    return ((n * c.x[1] + h) * c.x[2] + w) * c.x[3] + channel;
  }
  template <typename Body>
  void for_each_output(const Body& body) const {
    std::size_t i = 0;
    for (std::int64_t n = 0; n < out[0]; ++n) {
      for (std::int64_t h = 0; h < out[1]; ++h) {
        for (std::int64_t w = 0; w < out[2]; ++w) {
          for (std::int64_t k = 0; k < out[3]; ++k)
            body(i++, n, h, w, k);
        }
      }
    }
  }
};

std::string label(const ::testing::TestParamInfo<std::tuple<DType, Case>>& info) {
  const Case& c = std::get<1>(info.param);
  return fmt::format("{}_{}x{}x{}x{}_w{}_s{}_p{}", name_of(std::get<0>(info.param)), c.x[0], c.x[1],
                     c.x[2], c.x[3], c.options.window, c.options.stride, c.options.padding);
}

INSTANTIATE_TEST_SUITE_P(Shapes, MaxPool,
                         ::testing::Combine(::testing::Values(DType::f32, DType::bf16, DType::f16),
                                            ::testing::Values(Case{{1, 1, 1, 1}, {3, 2, 1}},
                                                              Case{{2, 7, 9, 17}, {3, 2, 1}},
                                                              Case{{2, 8, 8, 33}, {2, 2, 0}},
                                                              Case{{1, 5, 6, 70}, {3, 1, 1}},
                                                              Case{{1, 17, 17, 3}, {16, 1, 8}},
                                                              Case{{2, 6, 5, 16}, {3, 2, 1}},
                                                              Case{{3, 9, 7, 7}, {2, 3, 1}})),
                         label);

TEST_P(MaxPool, ForwardFindsTheFirstMaximum) {
  // Few distinct values, so ties are common.
  std::vector<double> values = random_values(c.x.count(), 1, dtype, -3.0, 3.0);
  for (double& value : values)
    value = std::round(value);
  const GuardedTensor x(dtype, c.x, values), y(dtype, out), index(DType::u8, out);

  ops::max_pool_forward(stream(), y, index, x, c.options);

  const std::vector<double> actual = y.get(), positions = index.get();
  for_each_output(
      [&](std::size_t i, std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t ch) {
        double best = -std::numeric_limits<double>::infinity();
        std::int64_t where = -1;
        for (std::int64_t k = 0; k < c.options.window * c.options.window; ++k) {
          const std::int64_t from = source(n, h, w, ch, k);
          if (from >= 0 && values[static_cast<std::size_t>(from)] > best) {
            best = values[static_cast<std::size_t>(from)];
            where = k;
          }
        }
        ASSERT_EQ(actual[i], best);
        ASSERT_EQ(positions[i], static_cast<double>(where));
      });
}

TEST_P(MaxPool, BackwardSendsEachGradientToItsMaximum) {
  const GuardedTensor x = random_tensor(dtype, c.x, 2), y(dtype, out), index(DType::u8, out);
  const GuardedTensor dy = random_tensor(dtype, out, 3), dx = random_tensor(dtype, c.x, 4);
  ops::max_pool_forward(stream(), y, index, x, c.options);
  std::vector<double> expected(static_cast<std::size_t>(c.x.count()));
  const std::vector<double> positions = index.get(), gradient = dy.get();
  for_each_output(
      [&](std::size_t i, std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t ch) {
        const std::int64_t to = source(n, h, w, ch, static_cast<std::int64_t>(positions[i]));
        expected[static_cast<std::size_t>(to)] += gradient[i];
      });

  ops::max_pool_backward(stream(), dx, dy, index, c.options);

  expect_close(dx.get(), expected, rounding_of(dtype), 1e-5);
}

TEST(MaxPoolGradient, AgreesWithFiniteDifferences) {
  const Shape shape{1, 5, 5, 2}, out{1, 3, 3, 2};
  std::vector<double> values(50);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<double>((i * 37) % 50);
  const GuardedTensor y(DType::f32, out), index(DType::u8, out), dx(DType::f32, shape);
  const GuardedTensor dy = random_tensor(DType::f32, out, 1);
  const std::vector<double> weight = dy.get();
  const auto loss = [&](const std::vector<double>& at) {
    ops::max_pool_forward(stream(), y, index, GuardedTensor(DType::f32, shape, at), {});
    const std::vector<double> result = y.get();
    double sum = 0.0;
    for (std::size_t i = 0; i < result.size(); ++i)
      sum += result[i] * weight[i];
    return sum;
  };
  const std::vector<double> expected = numeric_gradient(values, loss, 0.25);
  loss(values);  // leaves the index of the unmoved values

  ops::max_pool_backward(stream(), dx, dy, index, {});

  expect_close(dx.get(), expected, 1e-5, 1e-5);
}

TEST(MaxPoolValues, PassNaNOn) {
  const GuardedTensor x(DType::f32, {1, 2, 2, 1}, {1.0, std::nan(""), 3.0, 2.0});
  const GuardedTensor y(DType::f32, {1, 1, 1, 1}), index(DType::u8, {1, 1, 1, 1});

  ops::max_pool_forward(stream(), y, index, x, {2, 2, 0});

  EXPECT_TRUE(std::isnan(y.get()[0]));
  EXPECT_EQ(index.get()[0], 1.0);
}

class AveragePool : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, AveragePool, ::testing::Values(DType::f32, DType::bf16, DType::f16),
                         dtype_label);

TEST_P(AveragePool, AveragesEveryChannel) {
  for (const Shape& shape :
       {Shape{1, 1, 1, 1}, Shape{2, 7, 7, 33}, Shape{2, 9, 7, 40}, Shape{3, 17, 5, 130}}) {
    const GuardedTensor x = random_tensor(GetParam(), shape, 1),
                        y(GetParam(), {shape[0], shape[3]});
    std::vector<double> expected(static_cast<std::size_t>(shape[0] * shape[3]));
    const std::vector<double> values = x.get();
    const std::int64_t pixels = shape[1] * shape[2];
    for (std::int64_t i = 0; i < shape.count(); ++i) {
      const std::int64_t n = i / (pixels * shape[3]), c = i % shape[3];
      expected[static_cast<std::size_t>(n * shape[3] + c)] +=
          values[static_cast<std::size_t>(i)] / static_cast<double>(pixels);
    }

    ops::global_average_pool_forward(stream(), y, x);

    expect_close(y.get(), expected, rounding_of(GetParam()), 1e-6);
  }
}

TEST_P(AveragePool, BackwardSpreadsTheGradientEvenly) {
  for (const std::int64_t channels : {17, 24}) {
    const Shape shape{2, 3, 5, channels};
    const GuardedTensor dy = random_tensor(GetParam(), {2, channels}, 1), dx(GetParam(), shape);
    std::vector<double> expected(static_cast<std::size_t>(shape.count()));
    const std::vector<double> gradient = dy.get();
    const auto width = static_cast<std::size_t>(channels);
    for (std::size_t i = 0; i < expected.size(); ++i)
      expected[i] = gradient[i / (15 * width) * width + i % width] / 15.0;

    ops::global_average_pool_backward(stream(), dx, dy);

    expect_close(dx.get(), expected, rounding_of(GetParam()), 1e-7);
  }
}

TEST(PoolingErrors, NameShapesAndOptions) {
  const GuardedTensor x(DType::f32, {1, 4, 4, 2}), y(DType::f32, {1, 3, 2, 2}),
      index(DType::u8, {1, 2, 2, 2});

  expect_error([&] { ops::max_pool_forward(stream(), y, index, x, {}); },
               {"max_pool_forward", "(1, 3, 2, 2)", "(1, 2, 2, 2)"});
  expect_error([&] { (void)ops::max_pool_output_shape({1, 4, 4, 2}, {17, 1, 0}); }, {"window 17"});
  expect_error(
      [&] {
        (void)ops::max_pool_output_shape({1, 2, 2, 2}, {5, 1, 0});
      },
      {"(1, 2, 2, 2)", "5"});
  expect_error([&] { ops::global_average_pool_forward(stream(), y, x); },
               {"(1, 3, 2, 2)", "(1, 2)"});
}

}  // namespace
}  // namespace trireme
