// SPDX-License-Identifier: Apache-2.0
// The largest magnitude in an op's result, for quantize_fp8.
#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "models/transformer/activation_names.h"
#include "runtime/ops/elementwise/activation.h"
#include "runtime/ops/gemm/fp8.h"
#include "runtime/ops/norm/row_norm.h"
#include "tests/ops/guarded_tensor.h"

namespace trireme::test {
namespace {

// By bit patterns: a NaN exceeds every number.
std::uint32_t largest_in(const GuardedTensor& tensor) {
  std::uint32_t largest = 0;
  for (const double value : tensor.get()) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    largest = std::max(largest, bits & 0x7fffffffU);
  }
  return largest;
}

// Writes `result` and, if given, its largest magnitude.
using Op = std::function<void(const Tensor& amax)>;

void expect_left(const std::string& what, const GuardedTensor& result, const Op& op,
                 const std::function<void()>& restore = {}) {
  const GuardedTensor amax(DType::u32, {1});

  op({});
  const auto expected = result.raw();
  if (restore) restore();
  op(amax);

  EXPECT_EQ(result.raw(), expected) << what;
  EXPECT_EQ(amax.elements<std::uint32_t>()[0], largest_in(result)) << what;
}

class Magnitude : public ::testing::TestWithParam<DType> {
 protected:
  [[nodiscard]] GuardedTensor tensor(const Shape& shape, unsigned seed, double size = 3) const {
    return random_tensor(GetParam(), shape, seed, -size, size);
  }
};
INSTANTIATE_TEST_SUITE_P(Types, Magnitude, ::testing::Values(DType::f32, DType::bf16, DType::f16),
                         dtype_label);

// Rows of a warp and of blocks of three sizes, rows that are not held, whole packs and odd ones.
const std::vector<Shape> row_shapes{{1, 1},    {9, 33},   {20, 48},  {3, 1000},
                                    {5, 1536}, {3, 4104}, {70, 264}, {2, 8200}};

TEST_P(Magnitude, OfNormsIsThatOfStoredValues) {
  for (const Shape& shape : row_shapes) {
    const std::string what = shape.to_string();
    const Shape channels{shape[1]}, rows{shape[0]};
    const GuardedTensor x = tensor(shape, 1), dy = tensor(shape, 2), y = tensor(shape, 3);
    const GuardedTensor gamma = random_tensor(DType::f32, channels, 4, 0.5, 2.0);
    const GuardedTensor beta = random_tensor(DType::f32, channels, 5);
    const GuardedTensor mean(DType::f32, rows), rstd(DType::f32, rows);

    expect_left("layer norm of " + what, y, [&](const Tensor& amax) {
      ops::layer_norm_forward(stream(), y, mean, rstd, x, gamma, beta, 1e-5F, amax);
    });
    for (const bool accumulate : {false, true}) {
      GuardedTensor dx = tensor(shape, 6);
      const GuardedTensor dgamma = random_tensor(DType::f32, channels, 7);
      const GuardedTensor dbeta = random_tensor(DType::f32, channels, 8);
      const std::vector<double> before = dx.get();
      const auto restore = [&] { dx.set(before); };
      expect_left(
          "layer norm's gradient of " + what, dx,
          [&](const Tensor& amax) {
            ops::layer_norm_backward(stream(), dx, dgamma, dbeta, dy, x, gamma, mean, rstd,
                                     accumulate, amax);
          },
          restore);
    }
    expect_left("RMS norm of " + what, y, [&](const Tensor& amax) {
      ops::rms_norm_forward(stream(), y, rstd, x, gamma, 1e-5F, amax);
    });
    const GuardedTensor dx = tensor(shape, 6);
    expect_left("RMS norm's gradient of " + what, dx, [&](const Tensor& amax) {
      ops::rms_norm_backward(stream(), dx, {}, dy, x, gamma, rstd, false, amax);
    });
  }
}

TEST_P(Magnitude, OfActivationsIsThatOfStoredValues) {
  for (const Shape& shape : {Shape{1, 1}, Shape{7, 33}, Shape{64, 72}, Shape{40, 264}}) {
    const std::string what = shape.to_string();
    const GuardedTensor x = tensor(shape, 1), dy = tensor(shape, 2);
    const GuardedTensor wide = tensor({shape[0], 2 * shape[1]}, 3);
    const GuardedTensor y(GetParam(), shape), dwide(GetParam(), wide.view().shape);
    for (const auto& [kind, name] : names_of(ops::ActivationKind{})) {
      const std::string which = fmt::format("{} of {}", name, what);
      expect_left(which, y,
                  [&](const Tensor& amax) { ops::activation_forward(stream(), y, x, kind, amax); });
      expect_left("the gradient of " + which, y, [&](const Tensor& amax) {
        ops::activation_backward(stream(), y, dy, x, kind, amax);
      });
      expect_left("gated " + which, y,
                  [&](const Tensor& amax) { ops::gated_forward(stream(), y, wide, kind, amax); });
      expect_left("the gradient of gated " + which, dwide, [&](const Tensor& amax) {
        ops::gated_backward(stream(), dwide, dy, wide, kind, amax);
      });
    }
  }
}

// The counters of the GPU's blocks restart.
TEST_P(Magnitude, IsThatOfTheLastCallAlone) {
  const GuardedTensor amax(DType::u32, {1});
  for (const double size : {100.0, 1.0, 10.0, 0.0}) {
    const GuardedTensor x = tensor({40, 64}, 1, size), y(GetParam(), {40, 64});

    ops::activation_forward(stream(), y, x, ops::ActivationKind::gelu_tanh, amax);

    EXPECT_EQ(amax.elements<std::uint32_t>()[0], largest_in(y)) << size;
  }
}

TEST_P(Magnitude, ShowsNonFiniteValues) {
  std::vector<double> values(2 * 64, 1.0);
  for (const double spoiled : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    values[70] = spoiled;
    const GuardedTensor x(GetParam(), {2, 64}, values), y(GetParam(), {2, 64});
    const GuardedTensor amax(DType::u32, {1});

    ops::activation_forward(stream(), y, x, ops::ActivationKind::gelu_exact, amax);

    EXPECT_GE(amax.elements<std::uint32_t>()[0], 0x7f800000U);
    EXPECT_EQ(amax.elements<std::uint32_t>()[0], largest_in(y));
  }
}

TEST_P(Magnitude, GivesTheCodesThatReadingTheTensorGives) {
  for (const Shape& shape : {Shape{1, 1}, Shape{37, 19}, Shape{64, 200}, Shape{129, 64}}) {
    for (const DType format : {DType::f8e4m3, DType::f8e5m2}) {
      const GuardedTensor x = tensor(shape, 1), y(GetParam(), shape), amax(DType::u32, {1});
      const Shape turned{shape[1], shape[0]};
      const GuardedTensor codes(format, shape), transposed(format, turned), scale(DType::f32, {1});
      const GuardedTensor known(format, shape), known_transposed(format, turned);
      const GuardedTensor known_scale(DType::f32, {1});
      ops::activation_forward(stream(), y, x, ops::ActivationKind::gelu_tanh, amax);

      ops::quantize_fp8(stream(), {{codes, scale}, {transposed, scale}}, y);
      ops::quantize_fp8(stream(), {{known, known_scale}, {known_transposed, known_scale}}, y, amax);
      EXPECT_EQ(known_scale.raw(), scale.raw());
      EXPECT_EQ(known.raw(), codes.raw());
      EXPECT_EQ(known_transposed.raw(), transposed.raw());

      ops::quantize_fp8(stream(), {{known, known_scale}, {}}, y, amax);
      EXPECT_EQ(known_scale.raw(), scale.raw());
      EXPECT_EQ(known.raw(), codes.raw());
    }
  }
}

TEST(MagnitudeErrors, NameTheOperand) {
  const GuardedTensor x = random_tensor(DType::f32, {4, 8}, 1), y(DType::f32, {4, 8});
  const GuardedTensor two(DType::u32, {2}), wrong(DType::f32, {1});

  expect_error(
      [&] { ops::activation_forward(stream(), y, x, ops::ActivationKind::gelu_tanh, two); },
      {"activation_forward", "amax", "(2)", "(1)"});
  expect_error(
      [&] { ops::activation_forward(stream(), y, x, ops::ActivationKind::gelu_tanh, wrong); },
      {"amax", "f32", "u32"});
}

}  // namespace
}  // namespace trireme::test
