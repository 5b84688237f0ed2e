// SPDX-License-Identifier: Apache-2.0
// Products with the GELU or the bias gradient beside them, apart and fused.
#include "runtime/ops/elementwise/activation.h"
#include "runtime/ops/gemm/linear.h"
#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;
using Values = std::vector<double>;

// Fuses during its lifetime. The CPU ignores it.
class Fused {
 public:
  Fused() { stream().set_policy({.fused_epilogues = true}); }
  ~Fused() { stream().set_policy({}); }
  Fused(const Fused&) = delete;
  Fused& operator=(const Fused&) = delete;
};

bool on_gpu() {
  return stream().device().type() == DeviceType::cuda;
}

double gelu(double x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}

// x (N, I), w (O, I), bias (O).
Values linear(const Values& x, const Values& w, const Values& bias, std::int64_t inputs) {
  const auto i = static_cast<std::size_t>(inputs), o = bias.size(), n = x.size() / i;
  Values y(n * o);
  for (std::size_t r = 0; r < n; ++r) {
    for (std::size_t c = 0; c < o; ++c) {
      y[r * o + c] = bias[c];
      for (std::size_t k = 0; k < i; ++k)
        y[r * o + c] += x[r * i + k] * w[c * i + k];
    }
  }
  return y;
}

struct Sizes {
  std::int64_t rows, outputs, inputs;
};
// The first two have widths that are no multiple of 8, so no epilogue.
const Sizes all_sizes[] = {{3, 7, 5}, {17, 33, 19}, {9, 24, 40}, {130, 64, 24}};
bool fusible(const Sizes& sizes) {
  return sizes.outputs % 8 == 0;
}

class LinearGelu : public ::testing::TestWithParam<DType> {
 protected:
  struct Forward {
    GuardedTensor y, pre;
  };
  struct Operands {
    GuardedTensor x, w, bias;
  };
  [[nodiscard]] Operands operands(const Sizes& s) const {
    return {random_tensor(GetParam(), {s.rows, s.inputs}, 1),
            random_tensor(GetParam(), {s.outputs, s.inputs}, 2),
            random_tensor(DType::f32, {s.outputs}, 3)};
  }
  [[nodiscard]] Forward forward(const Sizes& s, const Operands& o) const {
    Forward result{GuardedTensor(GetParam(), {s.rows, s.outputs}),
                   GuardedTensor(GetParam(), {s.rows, s.outputs})};
    ops::linear_gelu_forward(stream(), result.y, result.pre, o.x, o.w, o.bias);
    return result;
  }
};
INSTANTIATE_TEST_SUITE_P(Types, LinearGelu, ::testing::Values(DType::f32, DType::bf16, DType::f16),
                         dtype_label);

TEST_P(LinearGelu, UnfusedHasTheBitsOfTheTwoOps) {
  for (const Sizes& s : all_sizes) {
    const Operands o = operands(s);
    const GuardedTensor dy = random_tensor(GetParam(), {s.rows, s.inputs}, 4);
    const GuardedTensor w2 = random_tensor(GetParam(), {s.inputs, s.outputs}, 5);
    const GuardedTensor pre(GetParam(), {s.rows, s.outputs}), y(GetParam(), {s.rows, s.outputs}),
        dx(GetParam(), {s.rows, s.outputs}), both(GetParam(), {s.rows, s.outputs});

    const Forward together = forward(s, o);
    ops::linear_gelu_backward_input(stream(), both, dy, w2, together.pre);
    ops::linear_forward(stream(), pre, o.x, o.w, o.bias);
    ops::activation_forward(stream(), y, pre, ops::ActivationKind::gelu_tanh);
    ops::linear_backward_input(stream(), dx, dy, w2);
    ops::activation_backward(stream(), dx, dx, pre, ops::ActivationKind::gelu_tanh);

    EXPECT_EQ(together.pre.raw(), pre.raw());
    EXPECT_EQ(together.y.raw(), y.raw());
    EXPECT_EQ(both.raw(), dx.raw());
  }
}

TEST_P(LinearGelu, FusedForwardAgreesWithTheReference) {
  const Fused fused;
  for (const Sizes& s : all_sizes) {
    const Operands o = operands(s);
    const double absolute = 8 * sum_rounding(s.inputs) + bias_rounding(GetParam());
    const Values expected = linear(o.x.get(), o.w.get(), o.bias.get(), s.inputs);
    Values activated = expected;
    for (double& value : activated)
      value = gelu(value);

    const Forward result = forward(s, o);

    expect_close(result.pre.get(), expected, rounding_of(GetParam()), absolute);
    // GELU of the rounded or of the exact sum: its slope is below 1.13.
    double largest = 0;
    for (const double value : expected)
      largest = std::max(largest, std::abs(value));
    expect_close(result.y.get(), activated, 2 * rounding_of(GetParam()),
                 1.2 * absolute + 1.2 * rounding_of(GetParam()) * largest);
  }
}

TEST_P(LinearGelu, FusedBackwardAgreesWithTheTwoOps) {
  for (const Sizes& s : all_sizes) {
    const GuardedTensor dy = random_tensor(GetParam(), {s.rows, s.inputs}, 4);
    const GuardedTensor w = random_tensor(GetParam(), {s.inputs, s.outputs}, 5);
    const GuardedTensor pre = random_tensor(GetParam(), {s.rows, s.outputs}, 6, -4.0, 4.0);
    const GuardedTensor apart(GetParam(), {s.rows, s.outputs}),
        together(GetParam(), {s.rows, s.outputs});

    ops::linear_gelu_backward_input(stream(), apart, dy, w, pre);
    const Fused fused;
    ops::linear_gelu_backward_input(stream(), together, dy, w, pre);

    expect_close(together.get(), apart.get(), 3 * rounding_of(GetParam()),
                 8 * sum_rounding(s.inputs));
  }
}

// Rounding to 16 bits shows the path: only a fused GELU reads unrounded values.
TEST(LinearGeluChoice, FusesOnlyWholePacksOfRows) {
  for (const Sizes& s : {Sizes{130, 60, 24}, Sizes{130, 64, 24}}) {
    const GuardedTensor x = random_tensor(DType::bf16, {s.rows, s.inputs}, 1);
    const GuardedTensor w = random_tensor(DType::bf16, {s.outputs, s.inputs}, 2);
    const GuardedTensor bias = random_tensor(DType::f32, {s.outputs}, 3);
    const auto bits = [&] {
      const GuardedTensor y(DType::bf16, {s.rows, s.outputs}), pre(DType::bf16, y.view().shape);
      ops::linear_gelu_forward(stream(), y, pre, x, w, bias);
      return y.raw();
    };

    const auto apart = bits();
    const Fused fused;

    EXPECT_EQ(bits() != apart, on_gpu() && fusible(s)) << s.outputs << " outputs";
  }
}

TEST_P(LinearGelu, FusedBiasGradientsAreAddedUp) {
  for (const Sizes& s : all_sizes) {
    const GuardedTensor dy = random_tensor(GetParam(), {s.rows, s.outputs}, 1);
    const GuardedTensor x = random_tensor(GetParam(), {s.rows, s.inputs}, 2);
    const GuardedTensor dw = random_tensor(DType::f32, {s.outputs, s.inputs}, 3);
    const GuardedTensor db = random_tensor(DType::f32, {s.outputs}, 4);
    Values expected = db.get(), plain_dw = dw.get();
    const Values slope = dy.get();
    for (std::size_t i = 0; i < slope.size(); ++i)
      expected[i % expected.size()] += slope[i];
    const GuardedTensor apart(DType::f32, dw.view().shape, plain_dw);
    ops::linear_backward_weight(stream(), apart, {}, dy, x);

    const Fused fused;
    ops::linear_backward_weight(stream(), dw, db, dy, x);

    expect_close(db.get(), expected, 1e-6, 4 * sum_rounding(s.rows));
    expect_close(dw.get(), apart.get(), 1e-6, 4 * sum_rounding(s.rows));
  }
}

TEST(LinearGeluGradients, AgreeWithFiniteDifferences) {
  constexpr std::int64_t n = 5, o = 3, wide = 8;
  const GuardedTensor pre = random_tensor(DType::f32, {n, wide}, 1, -2.0, 2.0);
  const GuardedTensor w = random_tensor(DType::f32, {o, wide}, 2);
  const GuardedTensor dy = random_tensor(DType::f32, {n, o}, 3);
  const Values slope = dy.get(), ws = w.get();
  const auto loss = [&](Values values) {
    for (double& value : values)
      value = gelu(value);
    const Values y = linear(values, ws, Values(o, 0.0), wide);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i)
      sum += y[i] * slope[i];
    return sum;
  };
  const Values expected = numeric_gradient(pre.get(), loss);

  for (const bool fuse : {false, true}) {
    const GuardedTensor dx(DType::f32, {n, wide});
    stream().set_policy({.fused_epilogues = fuse});
    ops::linear_gelu_backward_input(stream(), dx, dy, w, pre);
    stream().set_policy({});
    expect_close(dx.get(), expected, 1e-5, 1e-5);
  }
}

TEST(LinearGeluErrors, NameTheOperand) {
  const GuardedTensor x(DType::bf16, {4, 3}), w(DType::bf16, {5, 3}), y(DType::bf16, {4, 5}),
      pre(DType::bf16, {4, 5}), narrow(DType::bf16, {4, 4}), dx(DType::bf16, {4, 3});

  expect_error([&] { ops::linear_gelu_forward(stream(), y, narrow, x, w); }, {"pre", "(4, 4)"});
  expect_error([&] { ops::linear_gelu_forward(stream(), y, y, x, w); }, {"pre", "memory"});
  expect_error([&] { ops::linear_gelu_backward_input(stream(), dx, y, w, pre); },
               {"linear_gelu_backward_input", "pre", "(4, 5)"});
}

}  // namespace
}  // namespace trireme
