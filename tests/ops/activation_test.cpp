// SPDX-License-Identifier: Apache-2.0
// Every kind of activation, plain and as the gate of a gated linear unit.
#include "runtime/ops/elementwise/activation.h"

#include <functional>
#include <numeric>

#include "models/transformer/activation_names.h"
#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;
using ops::ActivationKind;
using Values = std::vector<double>;

double formula(ActivationKind kind, double x) {
  switch (kind) {
    case ActivationKind::gelu_tanh:
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
    case ActivationKind::gelu_exact:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case ActivationKind::silu:
      return x / (1.0 + std::exp(-x));
    case ActivationKind::relu2:
      return x > 0 ? x * x : 0;
    case ActivationKind::clamped_swiglu:  // below
      break;
  }
  return std::nan("");
}

std::vector<ActivationKind> all_kinds() {
  std::vector<ActivationKind> kinds;
  for (const auto& named : names_of(ActivationKind{}))
    kinds.push_back(named.value);
  return kinds;
}

class Activations : public ::testing::TestWithParam<std::tuple<DType, ActivationKind>> {
 protected:
  [[nodiscard]] static DType dtype() { return std::get<0>(GetParam()); }
  [[nodiscard]] static ActivationKind kind() { return std::get<1>(GetParam()); }
  [[nodiscard]] static double slope(double x) {
    return (formula(kind(), x + 1e-5) - formula(kind(), x - 1e-5)) / 2e-5;
  }
  // With gates and values in rows of twice the columns.
  [[nodiscard]] static Values gated(const Values& x, std::size_t columns) {
    Values y(x.size() / 2);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const std::size_t at = i / columns * 2 * columns + i % columns;
      y[i] = formula(kind(), x[at]) * x[at + columns];
    }
    return y;
  }
};
INSTANTIATE_TEST_SUITE_P(Types, Activations,
                         ::testing::Combine(::testing::Values(DType::f32, DType::bf16, DType::f16),
                                            ::testing::ValuesIn(all_kinds())),
                         [](const auto& info) {
                           return fmt::format("{}_{}", name_of(std::get<0>(info.param)),
                                              name_of(std::get<1>(info.param)));
                         });

TEST_P(Activations, ForwardIsItsFormula) {
  for (const std::int64_t n : {1, 3, 7, 17, 33, 1000}) {
    const GuardedTensor x = random_tensor(dtype(), {n}, 1, -6.0, 6.0);
    const GuardedTensor y(dtype(), {n});
    Values expected = x.get();
    for (double& value : expected)
      value = formula(kind(), value);

    ops::activation_forward(stream(), y, x, kind());

    expect_close(y.get(), expected, 8 * rounding_of(DType::f32) + rounding_of(dtype()), 1e-7);
  }
}

TEST_P(Activations, BackwardAgreesWithFiniteDifferencesAndMayOverwriteItsGradient) {
  constexpr std::int64_t n = 257;
  const GuardedTensor x = random_tensor(dtype(), {n}, 1, -6.0, 6.0);
  const GuardedTensor dy = random_tensor(dtype(), {n}, 2);
  const GuardedTensor dx(dtype(), {n});
  Values expected = dy.get();
  const Values at = x.get();
  for (std::size_t i = 0; i < expected.size(); ++i)
    expected[i] *= slope(at[i]);

  ops::activation_backward(stream(), dx, dy, x, kind());
  const auto apart = dx.raw();
  ops::activation_backward(stream(), dy, dy, x, kind());

  expect_close(dx.get(), expected, rounding_of(dtype()) + 1e-6, 5e-7);
  EXPECT_EQ(dy.raw(), apart);
}

TEST_P(Activations, GatedForwardMultipliesGatesAndValues) {
  for (const std::int64_t columns : {1, 7, 33, 64, 1000}) {
    const Shape wide{2, 3, 2 * columns}, shape{2, 3, columns};
    const GuardedTensor x = random_tensor(dtype(), wide, 1, -6.0, 6.0), y(dtype(), shape);
    const OffsetTensor moved(dtype(), wide, x.get()), moved_y(dtype(), shape);
    const Values expected = gated(x.get(), static_cast<std::size_t>(columns));

    ops::gated_forward(stream(), y, x, kind());
    ops::gated_forward(stream(), moved_y.view, moved.view, kind());

    expect_close(y.get(), expected, rounding_of(dtype()) + 2e-6, 1e-6);
    EXPECT_EQ(moved_y.get(), y.get());
  }
}

TEST_P(Activations, GatedBackwardAgreesWithFiniteDifferencesAndMayOverwriteItsInput) {
  for (const std::int64_t columns : {5, 32}) {
    const Shape wide{3, 2 * columns};
    const GuardedTensor x = random_tensor(dtype(), wide, 1, -6.0, 6.0), dx(dtype(), wide);
    const GuardedTensor dy = random_tensor(dtype(), {3, columns}, 2);
    const Values weights = dy.get();
    const Values expected = numeric_gradient(x.get(), [&](const Values& v) {
      const Values y = gated(v, static_cast<std::size_t>(columns));
      return std::inner_product(weights.begin(), weights.end(), y.begin(), 0.0);
    });

    ops::gated_backward(stream(), dx, dy, x, kind());
    ops::gated_backward(stream(), x, dy, x, kind());

    expect_close(dx.get(), expected, rounding_of(dtype()) + 1e-5, 1e-5);
    EXPECT_EQ(x.raw(), dx.raw());
  }
}

TEST_P(Activations, StayFiniteFarOutAndPassNaN) {
  const double far = dtype() == DType::f16 ? 200.0 : 1e15;
  const GuardedTensor x(dtype(), {5}, {far, -far, 64.0, -64.0, std::nan("")});
  const GuardedTensor ones(dtype(), {5}, Values(5, 1.0));
  const GuardedTensor y(dtype(), {5}), dx(dtype(), {5});

  ops::activation_forward(stream(), y, x, kind());
  ops::activation_backward(stream(), dx, ones, x, kind());

  const Values out = y.get(), gradient = dx.get(), in = x.get();
  EXPECT_NEAR(out[0] / formula(kind(), in[0]), 1.0, rounding_of(dtype()));
  EXPECT_NEAR(out[1], 0.0, 1e-3);
  EXPECT_EQ(out[2], formula(kind(), 64.0));
  EXPECT_NEAR(out[3], 0.0, 1e-6);
  EXPECT_TRUE(std::isnan(out[4]));
  EXPECT_TRUE(std::isfinite(gradient[0]));
  EXPECT_NEAR(gradient[1], 0.0, 1e-6);
  EXPECT_NEAR(gradient[2], slope(64.0), 1e-4);
  EXPECT_TRUE(std::isnan(gradient[4]));
}

TEST_P(Activations, GatedStayFiniteFarOutAndPassNaN) {
  const GuardedTensor x(dtype(), {3, 2}, {-200.0, 1.0, 200.0, 1.0, std::nan(""), 1.0});
  const GuardedTensor ones(dtype(), {3, 1}, Values(3, 1.0));
  const GuardedTensor y(dtype(), {3, 1}), dx(dtype(), {3, 2});

  ops::gated_forward(stream(), y, x, kind());
  ops::gated_backward(stream(), dx, ones, x, kind());

  const Values out = y.get(), gradient = dx.get();
  EXPECT_NEAR(out[0], 0.0, 1e-30);
  EXPECT_NEAR(out[1] / formula(kind(), 200.0), 1.0, rounding_of(dtype()));
  EXPECT_TRUE(std::isnan(out[2]));
  EXPECT_NEAR(gradient[0], 0.0, 1e-30);
  EXPECT_NEAR(gradient[1], 0.0, 1e-30);
  EXPECT_NEAR(gradient[2], slope(200.0), 1e-4);
  EXPECT_EQ(gradient[3], out[1]);
}

// The formula of gpt-oss, with PyTorch's clamp.
double clamped(double gate, double value) {
  const double g = std::min(gate, 7.0), v = std::clamp(value, -7.0, 7.0);
  return (v + 1) * g / (1 + std::exp(-1.702 * g));
}

class ClampedSwiglu : public TypedOp {
 protected:
  static Values of(const Values& x, std::size_t columns) {
    Values y(x.size() / 2);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const std::size_t at = i / columns * 2 * columns + i % columns;
      y[i] = clamped(x[at], x[at + columns]);
    }
    return y;
  }
};
INSTANTIATE_TEST_SUITE_P(Types, ClampedSwiglu,
                         ::testing::Values(DType::f32, DType::bf16, DType::f16), dtype_label);

// Away from the limits.
TEST_P(ClampedSwiglu, AgreesWithItsFormulaAndFiniteDifferences) {
  for (const std::int64_t columns : {1, 5, 33, 64}) {
    const Shape wide{6, 2 * columns}, shape{6, columns};
    const GuardedTensor x = random_tensor(GetParam(), wide, 1, -9.06, 9.06), y(GetParam(), shape);
    const GuardedTensor dy = random_tensor(GetParam(), shape, 2), dx(GetParam(), wide);
    const Values weights = dy.get();
    Values away = x.get();  // bf16 values may be limits
    for (double& value : away)
      value = std::abs(std::abs(value) - 7) < 0.02 ? 6.5 : value;
    const GuardedTensor in(GetParam(), wide, away);
    const auto many = static_cast<std::size_t>(columns);
    const Values expected = numeric_gradient(in.get(), [&](const Values& v) {
      const Values out = of(v, many);
      return std::inner_product(weights.begin(), weights.end(), out.begin(), 0.0);
    });

    ops::gated_forward(stream(), y, in, ActivationKind::clamped_swiglu);
    ops::gated_backward(stream(), dx, dy, in, ActivationKind::clamped_swiglu);
    ops::gated_backward(stream(), in, dy, in, ActivationKind::clamped_swiglu);

    expect_close(y.get(), of(away, many), relative() + 2e-6, 1e-6);
    expect_close(dx.get(), expected, relative() + 1e-5, 2e-5);
    EXPECT_EQ(in.raw(), dx.raw());
  }
}

TEST_P(ClampedSwiglu, HasNoSlopeBeyondItsLimitsAndOneAtThem) {
  // Gates, then values.
  const Values x{7, 8, 1, 1, -200, 7, 1, 7, -8, 1};
  const GuardedTensor in(GetParam(), {1, 10}, x), y(GetParam(), {1, 5}), dx(GetParam(), {1, 10});
  const GuardedTensor ones(GetParam(), {1, 5}, Values(5, 1.0));

  ops::gated_forward(stream(), y, in, ActivationKind::clamped_swiglu);
  ops::gated_backward(stream(), dx, ones, in, ActivationKind::clamped_swiglu);

  expect_close(y.get(), of(x, 5), relative() + 2e-6, 1e-30);
  const Values d = dx.get();
  for (const std::size_t inside : {0, 2, 3, 5, 6, 7})
    EXPECT_NE(d[inside], 0) << inside;
  EXPECT_EQ(d[1], 0);
  EXPECT_EQ(d[8], 0);
  EXPECT_NEAR(d[4], 0, 1e-30);
}

TEST_P(ClampedSwiglu, PassesNaNAndIsRefusedWithoutValues) {
  const GuardedTensor x(GetParam(), {1, 4}, {std::nan(""), 1, 1, std::nan("")});
  const GuardedTensor ones(GetParam(), {1, 2}, {1, 1}), y(GetParam(), {1, 2}),
      dx(GetParam(), {1, 4});

  ops::gated_forward(stream(), y, x, ActivationKind::clamped_swiglu);
  ops::gated_backward(stream(), dx, ones, x, ActivationKind::clamped_swiglu);

  for (const double value : y.get())
    EXPECT_TRUE(std::isnan(value));
  EXPECT_TRUE(std::isnan(dx.get()[0]));
  EXPECT_TRUE(std::isnan(dx.get()[1]));
  expect_error([&] { ops::activation_forward(stream(), y, y, ActivationKind::clamped_swiglu); },
               {"activation_forward", "clamped_swiglu without values"});
  expect_error([&] { ops::activation_backward(stream(), y, y, y, ActivationKind::clamped_swiglu); },
               {"activation_backward", "clamped_swiglu without values"});
}

// The functions whose backward takes their value.
class OfTheirValue : public TypedOp {};
INSTANTIATE_TEST_SUITE_P(Types, OfTheirValue,
                         ::testing::Values(DType::f32, DType::bf16, DType::f16), dtype_label);

struct OfValue {
  std::function<void(const Tensor& y, const Tensor& x)> forward;
  std::function<void(const Tensor& dx, const Tensor& dy, const Tensor& y)> backward;
  std::function<double(double)> formula;
};

std::vector<OfValue> functions_of_value() {
  std::vector<OfValue> all;
  for (const float slope : {0.0F, 0.01F, 0.3F}) {
    all.push_back(
        {[=](const auto& y, const auto& x) { ops::leaky_relu_forward(stream(), y, x, slope); },
         [=](const auto& dx, const auto& dy, const auto& y) {
           ops::leaky_relu_backward(stream(), dx, dy, y, slope);
         },
         [=](double x) { return x < 0 ? static_cast<double>(slope) * x : x; }});
  }
  for (const float scale : {1.0F, 1.2F}) {
    all.push_back({[=](const auto& y, const auto& x) { ops::tanh_forward(stream(), y, x, scale); },
                   [=](const auto& dx, const auto& dy, const auto& y) {
                     ops::tanh_backward(stream(), dx, dy, y, scale);
                   },
                   [=](double x) { return static_cast<double>(scale) * std::tanh(x); }});
  }
  return all;
}

TEST_P(OfTheirValue, ForwardIsItsFormulaWithRelativePrecisionAndMayBeInPlace) {
  for (const OfValue& function : functions_of_value()) {
    for (const std::int64_t n : {1, 7, 33, 1000}) {
      for (const double range : {0.01, 1.0, 9.0}) {
        const GuardedTensor x = random_tensor(GetParam(), {n}, 1, -range, range);
        const GuardedTensor y(GetParam(), {n});
        Values expected = x.get();
        for (double& value : expected)
          value = function.formula(value);

        function.forward(y, x);
        function.forward(x, x);

        expect_close(y.get(), expected, relative() + 5e-7, GetParam() == DType::f16 ? 1e-7 : 0);
        EXPECT_EQ(x.raw(), y.raw());
      }
    }
  }
}

TEST_P(OfTheirValue, BackwardAgreesWithFiniteDifferencesAndMayOverwriteItsGradient) {
  constexpr std::int64_t n = 257;
  for (const OfValue& function : functions_of_value()) {
    const GuardedTensor x = random_tensor(GetParam(), {n}, 1, -3.0, 3.0), y(GetParam(), {n});
    const GuardedTensor dy = random_tensor(GetParam(), {n}, 2), dx(GetParam(), {n});
    const Values at = x.get();
    Values expected = dy.get();
    for (std::size_t i = 0; i < expected.size(); ++i)
      expected[i] *= (function.formula(at[i] + 1e-5) - function.formula(at[i] - 1e-5)) / 2e-5;
    function.forward(y, x);

    function.backward(dx, dy, y);
    function.backward(dy, dy, y);

    // Of tanh's slope 1 - y^2 the rounding of y is part.
    expect_close(dx.get(), expected, relative() + 2e-6, 2.5 * relative());
    EXPECT_EQ(dy.raw(), dx.raw());
  }
}

TEST_P(OfTheirValue, AreKnownFarOutAndAtZeroAndPassNaN) {
  const double far = GetParam() == DType::f16 ? 6e4 : 1e15;
  const GuardedTensor x(GetParam(), {4}, {far, -far, 0.0, std::nan("")}), y(GetParam(), {4});
  const GuardedTensor ones(GetParam(), {4}, Values(4, 1.0)), dx(GetParam(), {4});
  const double large = x.get()[0];

  const auto numbers = [](const GuardedTensor& tensor) {
    Values values = tensor.get();
    values.pop_back();
    return values;
  };

  ops::leaky_relu_forward(stream(), y, x, 0.25F);
  ops::leaky_relu_backward(stream(), dx, ones, y, 0.25F);
  EXPECT_EQ(numbers(y), (Values{large, -large / 4, 0}));
  EXPECT_EQ(numbers(dx), (Values{1, 0.25, 0.25}));
  EXPECT_TRUE(std::isnan(y.get()[3]));

  ops::tanh_forward(stream(), y, x);
  ops::tanh_backward(stream(), dx, ones, y);
  EXPECT_EQ(numbers(y), (Values{1, -1, 0}));
  EXPECT_EQ(numbers(dx), (Values{0, 0, 1}));
  EXPECT_TRUE(std::isnan(y.get()[3]));
  EXPECT_TRUE(std::isnan(dx.get()[3]));
}

TEST_P(OfTheirValue, RefuseWhatDoesNotFit) {
  const GuardedTensor x(GetParam(), {3}), y(GetParam(), {4});
  expect_error([&] { ops::leaky_relu_forward(stream(), y, x, 0.1F); }, {"(3)", "(4)"});
  expect_error([&] { ops::tanh_backward(stream(), y, x, y); }, {"dy", "(3)", "(4)"});
  expect_error([&] { ops::leaky_relu_backward(stream(), y, y, y, -1.0F); }, {"slope of -1"});
  expect_error([&] { ops::tanh_forward(stream(), y, y, 0.0F); }, {"scale of 0"});
}

TEST_P(Activations, RefuseShapesThatDoNotFit) {
  const GuardedTensor x(dtype(), {3}), y(dtype(), {4});
  expect_error([&] { ops::activation_forward(stream(), y, x, kind()); }, {"(3)", "(4)"});
  expect_error([&] { ops::activation_backward(stream(), y, x, y, kind()); }, {"(3)", "(4)"});
  const GuardedTensor wide(dtype(), {3, 8}), narrow(dtype(), {3, 5}), half(dtype(), {3, 4});
  expect_error([&] { ops::gated_forward(stream(), narrow, wide, kind()); },
               {"(3, 5)", "(3, 8)", "twice"});
  expect_error([&] { ops::gated_backward(stream(), half, half, wide, kind()); }, {"dx", "(3, 4)"});
}

}  // namespace
}  // namespace trireme
