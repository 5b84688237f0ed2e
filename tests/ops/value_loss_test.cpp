// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/loss/value_loss.h"

#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;
using ops::ValueLossKind;
using Values = std::vector<double>;

constexpr ValueLossKind kinds[] = {ValueLossKind::mse, ValueLossKind::mae, ValueLossKind::huber};

double binary_formula(double logit, double target) {
  const double chance = 1 / (1 + std::exp(-logit));
  return -target * std::log(chance) - (1 - target) * std::log(1 - chance);
}

double formula(ValueLossKind kind, double delta, double error) {
  const double size = std::abs(error);
  if (kind == ValueLossKind::mse) return error * error;
  if (kind == ValueLossKind::mae) return size;
  return size <= delta ? error * error / 2 : delta * (size - delta / 2);
}

class ValueLoss : public TypedOp {};
INSTANTIATE_TEST_SUITE_P(Types, ValueLoss, ::testing::Values(DType::f32, DType::bf16, DType::f16),
                         dtype_label);

TEST_P(ValueLoss, LossesErrorsAndGradientsMatchFiniteDifferences) {
  for (const ValueLossKind kind : kinds) {
    for (const std::int64_t columns : {1, 4, 33}) {
      constexpr std::int64_t rows = 9;
      const std::int64_t count = rows * columns;
      const GuardedTensor predictions = random_tensor(GetParam(), {rows, columns}, 1, -3.0, 3.0);
      GuardedTensor targets = random_tensor(DType::f32, {rows, columns}, 2, -3.0, 3.0);
      Values wanted = targets.get();
      for (std::size_t i = 2; i < wanted.size(); i += 5)
        wanted[i] = std::nan("");
      targets.set(wanted);
      const Values weight = random_values(rows, 3, DType::f32, 0.0, 2.0);
      const GuardedTensor weights(DType::f32, {rows}, weight), scale(DType::f32, {1}, {8.0});
      const GuardedTensor losses(DType::f32, {count}), errors(DType::f32, {count});
      const Values before = predictions.get();

      ops::value_loss(stream(), losses, errors, predictions, targets,
                      {.kind = kind,
                       .delta = 1.5F,
                       .gradient_scale = 0.25F,
                       .loss_scale = scale.view().as<float>(),
                       .weights = weights.view().as<float>()});

      const Values loss = losses.get(), error = errors.get(), gradient = predictions.get();
      for (std::size_t i = 0; i < before.size(); ++i) {
        const bool counted = !std::isnan(wanted[i]);
        const double of_row = weight[i / static_cast<std::size_t>(columns)];
        const auto function = [&](const Values& v) {
          return counted ? of_row * formula(kind, 1.5, v[0] - wanted[i]) : 0.0;
        };
        const double slope = numeric_gradient({before[i]}, function)[0];
        ASSERT_NEAR(loss[i], function({before[i]}), 1e-6 * (1 + loss[i]));
        ASSERT_NEAR(error[i], counted ? std::abs(before[i] - wanted[i]) : 0.0, 1e-6);
        ASSERT_NEAR(gradient[i], 2 * slope, (relative() + 1e-5) * std::abs(2 * slope) + 1e-7);
      }
    }
  }
}

TEST_P(ValueLoss, OfLabelsIsBinaryCrossEntropyWhoseGradientMatchesFiniteDifferences) {
  const GuardedTensor logits = random_tensor(GetParam(), {7, 5}, 1, -6.0, 6.0);
  GuardedTensor targets(DType::f32, {7, 5});
  Values wanted(35), before = logits.get();
  for (std::size_t i = 0; i < wanted.size(); ++i)
    wanted[i] = i == 3 ? std::nan("") : i % 3 == 0 ? 1 : i % 3 == 1 ? 0 : 0.25;
  targets.set(wanted);
  const GuardedTensor losses(DType::f32, {35}), errors(DType::f32, {35});

  ops::value_loss(stream(), losses, errors, logits, targets, {.kind = ValueLossKind::binary});

  const Values loss = losses.get(), error = errors.get(), gradient = logits.get();
  for (std::size_t i = 0; i < before.size(); ++i) {
    const auto function = [&](const Values& v) {
      return i == 3 ? 0.0 : binary_formula(v[0], wanted[i]);
    };
    const double chance = 1 / (1 + std::exp(-before[i]));
    const double slope = numeric_gradient({before[i]}, function)[0];
    EXPECT_NEAR(loss[i], function({before[i]}), 1e-6 * (1 + loss[i]));
    EXPECT_NEAR(error[i], i == 3 ? 0.0 : std::abs(chance - wanted[i]), 1e-6);
    EXPECT_NEAR(gradient[i], slope, (relative() + 1e-5) * std::abs(slope) + 1e-6);
  }
}

TEST_P(ValueLoss, OfLabelsStaysFiniteForLargeLogits) {
  const GuardedTensor logits(GetParam(), {1, 4}, {200, 200, -200, -200});
  const GuardedTensor targets(DType::f32, {1, 4}, {1, 0, 1, 0}), losses(DType::f32, {4});

  ops::value_loss(stream(), losses, {}, logits, targets, {.kind = ValueLossKind::binary});

  EXPECT_EQ(losses.get(), Values({0, 200, 200, 0}));
  EXPECT_EQ(logits.get(), Values({0, 1, -1, 0}));
}

TEST_P(ValueLoss, LeavesThePredictionsAloneInEvaluation) {
  const GuardedTensor predictions = random_tensor(GetParam(), {3, 2}, 1);
  const GuardedTensor targets = random_tensor(DType::f32, {3, 2}, 2);
  const GuardedTensor losses(DType::f32, {3, 2});
  const auto before = predictions.raw();

  ops::value_loss(stream(), losses, {}, predictions, targets, {.write_gradient = false});

  EXPECT_EQ(predictions.raw(), before);
}

TEST_P(ValueLoss, ShowsAPredictionThatIsNotFiniteAndHidesNoneButIgnoredOnes) {
  const double infinite = std::numeric_limits<double>::infinity(), none = std::nan("");
  for (const ValueLossKind kind : kinds) {
    const GuardedTensor predictions(GetParam(), {1, 6}, {infinite, -infinite, none, 1, none, 1});
    const GuardedTensor targets(DType::f32, {1, 6}, {0, 0, 0, infinite, none, 1});
    const GuardedTensor losses(DType::f32, {6}), errors(DType::f32, {6});

    ops::value_loss(stream(), losses, errors, predictions, targets, {.kind = kind});

    for (const Values& values : {losses.get(), errors.get(), predictions.get()}) {
      for (std::size_t i = 0; i < 4; ++i)
        EXPECT_TRUE(std::isnan(values[i])) << i;
      EXPECT_EQ(values[4], 0);
      EXPECT_EQ(values[5], 0);
    }
  }
}

TEST_P(ValueLoss, RefusesOperandsThatDoNotFit) {
  const GuardedTensor predictions(GetParam(), {3, 4}), losses(DType::f32, {12});
  const GuardedTensor targets(DType::f32, {12}), few(DType::f32, {11}), labels(DType::i32, {12});
  const auto run = [&](const Tensor& loss, const Tensor& wanted, float delta) {
    ops::value_loss(stream(), loss, {}, predictions, wanted, {.delta = delta});
  };

  expect_error([&] { run(few, targets, 1); }, {"losses", "(11)", "12"});
  expect_error([&] { run(losses, few, 1); }, {"targets", "(11)", "12"});
  expect_error([&] { run(losses, labels, 1); }, {"targets", "i32", "f32"});
  expect_error([&] { run(losses, targets, 0); }, {"delta of 0"});
}

}  // namespace
}  // namespace trireme
