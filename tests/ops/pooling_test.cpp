// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/convolution/pooling.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;

struct Case {
  Shape x;
  ops::PoolingOptions options;

  // The number of `value` for axis `axis` of x.
  [[nodiscard]] std::int64_t of(const ops::PerAxis& value, std::size_t axis) const {
    return value[axis + 4 - x.rank()];
  }
  [[nodiscard]] std::int64_t positions() const {
    std::int64_t count = 1;
    for (std::size_t axis = 1; axis + 1 < x.rank(); ++axis)
      count *= of(options.window, axis);
    return count;
  }
  // The x index of position `k` of the window at element i of y(out); -1 outside.
  [[nodiscard]] std::int64_t source(const Shape& out, std::size_t i, std::int64_t k) const {
    const std::int64_t channel = static_cast<std::int64_t>(i) % out.back();
    std::int64_t at = static_cast<std::int64_t>(i) / out.back(), from = 0, step = 1;
    for (std::size_t axis = x.rank() - 2; axis > 0; --axis) {
      const std::int64_t position = at % out[axis] * of(options.stride, axis) -
                                    of(options.padding, axis) + k % of(options.window, axis);
      if (position < 0 || position >= x[axis]) return -1;
      from += position * step;
      step *= x[axis];
      at /= out[axis];
      k /= of(options.window, axis);
    }
    return (at * step + from) * x.back() + channel;
  }
};

class MaxPool : public ::testing::TestWithParam<std::tuple<DType, Case>> {
 protected:
  DType dtype = std::get<0>(GetParam());
  Case c = std::get<1>(GetParam());
  Shape out = ops::max_pool_output_shape(c.x, c.options);
};
std::string label(const ::testing::TestParamInfo<std::tuple<DType, Case>>& info) {
  const Case& c = std::get<1>(info.param);
  std::string text = fmt::format("{}_{}_w{}_s{}_p{}", name_of(std::get<0>(info.param)),
                                 c.x.to_string(), c.options.window.to_string(),
                                 c.options.stride.to_string(), c.options.padding.to_string());
  std::erase_if(text, [](char letter) { return letter == '(' || letter == ')' || letter == ' '; });
  std::ranges::replace(text, ',', 'x');
  return text;
}

const auto cases = ::testing::Combine(
    ::testing::Values(DType::f32, DType::bf16, DType::f16),
    ::testing::Values(Case{{1, 1, 1, 1}, {3, 2, 1}}, Case{{2, 7, 9, 17}, {3, 2, 1}},
                      Case{{2, 8, 8, 33}, {2, 2, 0}}, Case{{1, 5, 6, 70}, {3, 1, 1}},
                      Case{{1, 17, 17, 3}, {16, 1, 8}}, Case{{2, 6, 5, 16}, {3, 2, 1}},
                      Case{{3, 9, 7, 7}, {2, 3, 1}}, Case{{1, 7, 5, 8}, {{1, 3}, {2, 1}, {0, 1}}},
                      Case{{2, 4, 6, 8, 16}, {2, 2, 0}}, Case{{1, 5, 7, 6, 9}, {3, 2, 1}},
                      Case{{1, 7, 8, 6, 3}, {{6, 6, 7}, 1, {3, 2, 1}}},
                      Case{{2, 3, 5, 4, 24}, {{1, 2, 3}, {1, 2, 1}, {0, 0, 1}}}));
INSTANTIATE_TEST_SUITE_P(Shapes, MaxPool, cases, label);

TEST_P(MaxPool, ForwardFindsTheFirstMaximum) {
  // Few distinct values, so ties are common.
  std::vector<double> values = random_values(c.x.count(), 1, dtype, -3.0, 3.0);
  for (double& value : values)
    value = std::round(value);
  const GuardedTensor x(dtype, c.x, values), y(dtype, out), index(DType::u8, out);

  ops::max_pool_forward(stream(), y, index, x, c.options);

  const std::vector<double> actual = y.get(), positions = index.get();
  for (std::size_t i = 0; i < actual.size(); ++i) {
    double best = -std::numeric_limits<double>::infinity();
    std::int64_t where = -1;
    for (std::int64_t k = 0; k < c.positions(); ++k) {
      const std::int64_t from = c.source(out, i, k);
      if (from >= 0 && values[static_cast<std::size_t>(from)] > best) {
        best = values[static_cast<std::size_t>(from)];
        where = k;
      }
    }
    ASSERT_EQ(actual[i], best);
    ASSERT_EQ(positions[i], static_cast<double>(where));
  }
}

TEST_P(MaxPool, BackwardSendsEachGradientToItsMaximum) {
  const GuardedTensor x = random_tensor(dtype, c.x, 2), y(dtype, out), index(DType::u8, out);
  const GuardedTensor dy = random_tensor(dtype, out, 3), dx = random_tensor(dtype, c.x, 4);
  ops::max_pool_forward(stream(), y, index, x, c.options);
  std::vector<double> expected(static_cast<std::size_t>(c.x.count()));
  const std::vector<double> positions = index.get(), gradient = dy.get();
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const std::int64_t to = c.source(out, i, static_cast<std::int64_t>(positions[i]));
    expected[static_cast<std::size_t>(to)] += gradient[i];
  }

  ops::max_pool_backward(stream(), dx, dy, index, c.options);

  expect_close(dx.get(), expected, rounding_of(dtype), 1e-5);
}

TEST(PoolingGradients, AgreeWithFiniteDifferences) {
  for (const Case& c : {Case{{1, 5, 5, 2}, {}}, Case{{1, 3, 5, 4, 2}, {3, {1, 2, 2}, 1}}}) {
    const Shape out = ops::max_pool_output_shape(c.x, c.options);
    std::vector<double> values(static_cast<std::size_t>(c.x.count()));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<double>((i * 37) % values.size());
    const GuardedTensor y(DType::f32, out), index(DType::u8, out), dx(DType::f32, c.x);
    const GuardedTensor dy = random_tensor(DType::f32, out, 1);
    const std::vector<double> weight = dy.get();
    const auto weighted = [&] {
      const std::vector<double> result = y.get();
      return std::inner_product(result.begin(), result.end(), weight.begin(), 0.0);
    };
    const auto largest = [&](const std::vector<double>& at) {
      ops::max_pool_forward(stream(), y, index, GuardedTensor(DType::f32, c.x, at), c.options);
      return weighted();
    };
    const auto average = [&](const std::vector<double>& at) {
      ops::average_pool_forward(stream(), y, GuardedTensor(DType::f32, c.x, at), c.options);
      return weighted();
    };
    const std::vector<double> expected = numeric_gradient(values, largest, 0.25);
    largest(values);  // leaves the index of the unmoved values

    ops::max_pool_backward(stream(), dx, dy, index, c.options);
    expect_close(dx.get(), expected, 1e-5, 1e-5);

    ops::average_pool_backward(stream(), dx, dy, c.options);
    expect_close(dx.get(), numeric_gradient(values, average, 4.0), 1e-4, 1e-4);
  }
}

TEST(MaxPoolValues, PassNaNOn) {
  const GuardedTensor x(DType::f32, {1, 2, 2, 1}, {1.0, std::nan(""), 3.0, 2.0});
  const GuardedTensor y(DType::f32, {1, 1, 1, 1}), index(DType::u8, {1, 1, 1, 1});

  ops::max_pool_forward(stream(), y, index, x, {2, 2, 0});

  EXPECT_TRUE(std::isnan(y.get()[0]));
  EXPECT_EQ(index.get()[0], 1.0);
}

class AveragePool : public MaxPool {};
INSTANTIATE_TEST_SUITE_P(Shapes, AveragePool, cases, label);

TEST_P(AveragePool, AveragesThePositionsInside) {
  const GuardedTensor x = random_tensor(dtype, c.x, 1), y(dtype, out);
  const GuardedTensor dy = random_tensor(dtype, out, 2), dx = random_tensor(dtype, c.x, 3);
  const std::vector<double> values = x.get(), gradient = dy.get();
  std::vector<double> expected(gradient.size()), expected_dx(values.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    std::vector<std::size_t> inside;
    for (std::int64_t k = 0; k < c.positions(); ++k) {
      if (const std::int64_t from = c.source(out, i, k); from >= 0)
        inside.push_back(static_cast<std::size_t>(from));
    }
    for (const std::size_t from : inside) {
      expected[i] += values[from] / static_cast<double>(inside.size());
      expected_dx[from] += gradient[i] / static_cast<double>(inside.size());
    }
  }

  ops::average_pool_forward(stream(), y, x, c.options);
  ops::average_pool_backward(stream(), dx, dy, c.options);

  expect_close(y.get(), expected, rounding_of(dtype), 1e-6);
  expect_close(dx.get(), expected_dx, rounding_of(dtype), 1e-6);
}

class GlobalAveragePool : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, GlobalAveragePool,
                         ::testing::Values(DType::f32, DType::bf16, DType::f16), dtype_label);

TEST_P(GlobalAveragePool, AveragesEveryChannel) {
  for (const Shape& shape : {Shape{1, 1, 1, 1}, Shape{2, 7, 7, 33}, Shape{2, 63, 40},
                             Shape{2, 3, 5, 2, 6}, Shape{3, 17, 5, 130}}) {
    const GuardedTensor x = random_tensor(GetParam(), shape, 1),
                        y(GetParam(), {shape[0], shape.back()});
    std::vector<double> expected(static_cast<std::size_t>(shape[0] * shape.back()));
    const std::vector<double> values = x.get();
    const std::int64_t pixels = shape.count() / (shape[0] * shape.back());
    for (std::int64_t i = 0; i < shape.count(); ++i) {
      const std::int64_t n = i / (pixels * shape.back()), c = i % shape.back();
      expected[static_cast<std::size_t>(n * shape.back() + c)] +=
          values[static_cast<std::size_t>(i)] / static_cast<double>(pixels);
    }

    ops::global_average_pool_forward(stream(), y, x);

    expect_close(y.get(), expected, rounding_of(GetParam()), 1e-6);
  }
}

TEST_P(GlobalAveragePool, BackwardSpreadsTheGradientEvenly) {
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
  expect_error(
      [&] {
        (void)ops::max_pool_output_shape({1, 9, 9, 9, 2}, {7, 1, 0});
      },
      {"window 7", "more than 256 positions"});
  expect_error(
      [&] {
        (void)ops::average_pool_output_shape({1, 9, 9, 9, 2}, {3, 1, {0, 2, 0}});
      },
      {"average_pool", "padding (0, 2, 0)", "half the window 3"});
  expect_error([&] { ops::global_average_pool_forward(stream(), y, x); },
               {"(1, 3, 2, 2)", "(1, 2)"});
}

}  // namespace
}  // namespace trireme
