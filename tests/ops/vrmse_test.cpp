// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/loss/vrmse.h"

#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;
using Values = std::vector<double>;

class Vrmse : public TypedOp {};
INSTANTIATE_TEST_SUITE_P(Types, Vrmse, ::testing::Values(DType::f32, DType::bf16, DType::f16),
                         dtype_label);

// One sample of (pixels, channels).
double reference(const Values& predicted, const Values& wanted, std::size_t first,
                 std::size_t pixels, std::size_t channels) {
  double sum = 0, counted = 0, of = 0;
  for (std::size_t c = 0; c < channels; ++c) {
    double n = 0, mean = 0, squares = 0, variance = 0;
    const auto each = [&](const auto& use) {
      for (std::size_t p = 0; p < pixels; ++p) {
        const std::size_t i = first + p * channels + c;
        if (!std::isnan(wanted[i])) use(predicted[i], wanted[i]);
      }
    };
    each([&](double, double target) { n += 1, mean += target; });
    if (n == 0) continue;
    mean /= n;
    each([&](double prediction, double target) {
      squares += (prediction - target) * (prediction - target) / n;
      variance += (target - mean) * (target - mean) / (n - 1);
    });
    sum += std::sqrt(squares / (variance + 1e-7));
    of += 1;
    counted += n;
  }
  return of == 0 ? 0 : counted * sum / of;
}

TEST_P(Vrmse, IsTheMeanOverChannelsOfEachSampleTimesItsCountedTargets) {
  for (const std::size_t channels : {1U, 3U, 5U}) {
    constexpr std::size_t samples = 3, pixels = 1301;
    const std::size_t values = pixels * channels;
    const GuardedTensor predictions = random_tensor(
        GetParam(), {static_cast<std::int64_t>(samples), static_cast<std::int64_t>(values)}, 1);
    Values wanted =
        random_tensor(DType::f32, {static_cast<std::int64_t>(samples * values)}, 2).get();
    for (double& value : wanted)
      value = 1000 + value;  // far from zero
    std::fill_n(wanted.begin() + static_cast<std::ptrdiff_t>(values), values, std::nan(""));
    wanted[2 * values + 7] = std::nan("");
    const GuardedTensor targets(DType::f32, {static_cast<std::int64_t>(wanted.size())}, wanted);
    const GuardedTensor errors(DType::f32, {samples});

    ops::vrmse(stream(), errors, predictions, targets, static_cast<std::int64_t>(channels));

    const Values predicted = predictions.get(), stored = targets.get(), result = errors.get();
    for (std::size_t sample = 0; sample < samples; ++sample) {
      const double expected = reference(predicted, stored, sample * values, pixels, channels);
      EXPECT_NEAR(result[sample], expected, 1e-6 * expected);
    }
    EXPECT_EQ(result[1], 0);
  }
}

TEST_P(Vrmse, OfTheMeanIsAboutOne) {
  const GuardedTensor predictions(GetParam(), {1, 4}, {2.5, 2.5, 2.5, 2.5});
  const GuardedTensor targets(DType::f32, {4}, {1, 2, 3, 4}), errors(DType::f32, {1});

  ops::vrmse(stream(), errors, predictions, targets, 1);

  EXPECT_NEAR(errors.get()[0], 4 * std::sqrt(3.0 / 4), 1e-5);  // n - 1 by n
}

TEST_P(Vrmse, RefusesOperandsThatDoNotFit) {
  const GuardedTensor predictions(GetParam(), {2, 6}), targets(DType::f32, {12}),
      few(DType::f32, {11}), errors(DType::f32, {2}), one(DType::f32, {1});
  const auto run = [&](const Tensor& to, const Tensor& wanted, std::int64_t channels) {
    ops::vrmse(stream(), to, predictions, wanted, channels);
  };

  expect_error([&] { run(errors, few, 3); }, {"targets", "(11)", "12"});
  expect_error([&] { run(one, targets, 3); }, {"errors", "(1)", "2"});
  expect_error([&] { run(errors, targets, 4); }, {"4 channels", "(2, 6)"});
}

}  // namespace
}  // namespace trireme
