// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/elementwise/elementwise.h"

#include <limits>

#include "runtime/ops/common/fixed_sum.h"
#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;

class Elementwise : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, Elementwise, ::testing::Values(DType::f32, DType::bf16, DType::f16),
                         dtype_label);

TEST_P(Elementwise, AddsInPlaceAtOddSizes) {
  for (const std::int64_t n : {1, 3, 7, 17, 33, 1000}) {
    const GuardedTensor y = random_tensor(GetParam(), {n}, 1),
                        x = random_tensor(GetParam(), {n}, 2);
    std::vector<double> expected = y.get();
    const std::vector<double> added = x.get();
    for (std::size_t i = 0; i < expected.size(); ++i)
      expected[i] += added[i];

    ops::add_in_place(stream(), y, x);

    expect_close(y.get(), expected, rounding_of(GetParam()), 1e-9);
  }
}

TEST_P(Elementwise, ScaleInPlaceMultipliesEveryElement) {
  for (const std::int64_t n : {1, 7, 33, 1000}) {
    const GuardedTensor y = random_tensor(GetParam(), {n}, 1);
    std::vector<double> expected = y.get();
    for (double& value : expected)
      value *= 1.75;

    ops::scale_in_place(stream(), y, 1.75F);

    expect_close(y.get(), expected, rounding_of(GetParam()), 1e-9);
  }
}

TEST_P(Elementwise, ReluForwardTakesTheMaximumOfTheSumAndZero) {
  for (const std::int64_t n : {1, 3, 7, 17, 33, 1000}) {
    const GuardedTensor a = random_tensor(GetParam(), {n}, 3),
                        b = random_tensor(GetParam(), {n}, 4);
    const GuardedTensor y(GetParam(), {n}), single(GetParam(), {n});
    const std::vector<double> av = a.get(), bv = b.get();
    std::vector<double> of_sum(av.size()), of_a(av.size());
    for (std::size_t i = 0; i < av.size(); ++i) {
      of_sum[i] = std::max(av[i] + bv[i], 0.0);
      of_a[i] = std::max(av[i], 0.0);
    }

    ops::relu_forward(stream(), y, a, b);
    ops::relu_forward(stream(), single, a);

    expect_close(y.get(), of_sum, rounding_of(GetParam()), 1e-9);
    expect_close(single.get(), of_a, 0.0, 0.0);
  }
}

TEST_P(Elementwise, ViewsMayBeginAtAnyElement) {
  const std::int64_t n = 1003;
  const GuardedTensor a = random_tensor(GetParam(), {n + 3}, 3),
                      b = random_tensor(GetParam(), {n + 3}, 4);
  const std::vector<double> av = a.get(), bv = b.get();
  for (const std::int64_t shift : {0, 1, 2, 3}) {
    const GuardedTensor y(GetParam(), {n});
    std::vector<double> expected(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < expected.size(); ++i)
      expected[i] = std::max(av[i + static_cast<std::size_t>(shift)] + bv[i + 1], 0.0);

    ops::relu_forward(stream(), y, a.view().range(shift, n), b.view().range(1, n));

    expect_close(y.get(), expected, rounding_of(GetParam()), 1e-9);
  }
}

TEST_P(Elementwise, CastsLongTensorsFromAndToF32) {
  const std::int64_t n = 5001;
  const GuardedTensor x = random_tensor(GetParam(), {n + 1}, 5);
  const GuardedTensor wide(DType::f32, {n}), back(GetParam(), {n});
  const std::vector<double> values = x.get();

  ops::cast(stream(), wide, x.view().range(1, n));
  ops::cast(stream(), back, wide);

  const std::vector<double> expected(values.begin() + 1, values.end());
  EXPECT_EQ(wide.get(), expected);
  EXPECT_EQ(back.get(), expected);
}

TEST_P(Elementwise, ReluBackwardPassesGradientsWhereTheOutputIsPositive) {
  const GuardedTensor dy = random_tensor(GetParam(), {33}, 5),
                      y = random_tensor(GetParam(), {33}, 6);
  const GuardedTensor dx(GetParam(), {33});
  std::vector<double> expected = dy.get();
  const std::vector<double> out = y.get();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (out[i] <= 0.0) expected[i] = 0.0;
  }

  ops::relu_backward(stream(), dx, dy, y);
  ops::relu_backward(stream(), dy, dy, y);  // in place

  EXPECT_EQ(dx.get(), expected);
  EXPECT_EQ(dy.get(), expected);
}

TEST_P(Elementwise, ReluLetsNaNThrough) {
  const GuardedTensor a(GetParam(), {3}, {std::nan(""), -1.0, 2.0}), y(GetParam(), {3});

  ops::relu_forward(stream(), y, a);

  EXPECT_TRUE(std::isnan(y.get()[0]));
  EXPECT_EQ(y.get()[1], 0.0);
}

TEST(Cast, RoundsToNearestEvenAndBack) {
  const double above = 1.0 + 0x1p-8, tie_up = 1.0 + 3 * 0x1p-8;
  const GuardedTensor x(DType::f32, {5}, {above, tie_up, -above, 1e30, std::nan("")});
  const GuardedTensor low(DType::bf16, {5}), high(DType::f32, {5});

  ops::cast(stream(), low, x);
  ops::cast(stream(), high, low);

  const std::vector<double> result = high.get();
  EXPECT_EQ(result[0], 1.0);
  EXPECT_EQ(result[1], 1.0 + 4 * 0x1p-8);
  EXPECT_EQ(result[2], -1.0);
  EXPECT_NEAR(result[3], 1e30, 1e28);
  EXPECT_TRUE(std::isnan(result[4]));
}

TEST(AccumulateSum, AddsToTheTotalInDouble) {
  for (const std::int64_t n : {1, 15, 16, 17, 4095, 4096, 4097, 20000}) {
    const GuardedTensor x = random_tensor(DType::f32, {n}, 8), total(DType::f64, {1}, {5.0});
    double expected = 5.0;
    for (const double value : x.get())
      expected += value;

    ops::accumulate_sum(stream(), total, x);

    EXPECT_NEAR(total.get()[0], expected, 1e-10);
  }
}

TEST(AccumulateSum, HasTheSameBitsOnEveryDevice) {
  for (const std::int64_t n : {1, 16, 4097, 40001, 300007}) {
    const GuardedTensor x = random_tensor(DType::f32, {n}, 9), total(DType::f64, {1}, {0.25});

    ops::accumulate_sum(stream(), total, x);

    EXPECT_EQ(total.get()[0], 0.25 + ops::fixed_sum<false>(x.elements<float>().data(), n));
  }
}

TEST(AccumulateSum, LosesNothingToCancellation) {
  const GuardedTensor x(DType::f32, {3}, {1e8, 1.0, -1e8}), total(DType::f64, {1}, {0.0});

  ops::accumulate_sum(stream(), total, x);

  EXPECT_EQ(total.get()[0], 1.0);
}

TEST(ElementwiseErrors, NameBothShapesAndDtypes) {
  const GuardedTensor a(DType::f32, {4}), b(DType::f32, {5}), c(DType::bf16, {4});

  expect_error([&] { ops::add_in_place(stream(), a, b); }, {"add_in_place", "(5)", "(4)"});
  expect_error([&] { ops::add_in_place(stream(), a, c); }, {"bf16", "f32"});
  expect_error([&] { ops::add_in_place(stream(), a, Tensor{}); }, {"x is absent"});
}

TEST(ElementwiseErrors, RefuseOperandsThatOverlapInPart) {
  const GuardedTensor a(DType::f32, {8});
  const Tensor front = a.view().range(0, 6), back = a.view().range(2, 6);

  expect_error([&] { ops::add_in_place(stream(), front, back); }, {"shares"});
  expect_error([&] { ops::cast(stream(), front, front); }, {"shares"});
}

}  // namespace
}  // namespace trireme
