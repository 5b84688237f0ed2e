// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/loss/cross_entropy.h"

#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;
using Values = std::vector<double>;

class CrossEntropy : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, CrossEntropy,
                         ::testing::Values(DType::f32, DType::bf16, DType::f16), dtype_label);

double row_loss(const double* logits, std::int64_t classes, std::int64_t target, double smoothing,
                double z_loss = 0) {
  double sum = 0, loss = 0;
  for (std::int64_t i = 0; i < classes; ++i)
    sum += std::exp(logits[i] - logits[target]);
  for (std::int64_t i = 0; i < classes; ++i) {
    const double weight =
        (i == target ? 1.0 - smoothing : 0.0) + smoothing / static_cast<double>(classes);
    loss -= weight * (logits[i] - logits[target] - std::log(sum));
  }
  const double whole = std::log(sum) + logits[target];
  return loss + z_loss * whole * whole;
}

TEST_P(CrossEntropy, LossesAndGradientsMatchFiniteDifferences) {
  for (const auto& [smoothing, z_loss] : {std::pair{0.0, 0.0}, {0.1, 0.0}, {0.1, 0.05}}) {
    for (const std::int64_t classes : {1, 3, 17, 33}) {
      const std::int64_t padded = classes + 5;
      const GuardedTensor logits = random_tensor(GetParam(), {4, padded}, 1, -4.0, 4.0);
      const GuardedTensor targets(
          DType::i32, {4},
          {0.0, static_cast<double>(classes - 1), -1.0, static_cast<double>(classes / 2)});
      const GuardedTensor losses(DType::f32, {4}), correct(DType::f32, {4});
      const Values before = logits.get(), id = targets.get();
      ops::CrossEntropyOptions options;
      options.classes = classes;
      options.label_smoothing = static_cast<float>(smoothing);
      options.z_loss = static_cast<float>(z_loss);
      options.gradient_scale = 0.25F;

      ops::cross_entropy(stream(), losses, correct, logits, targets, options);

      const Values gradient = logits.get(), loss = losses.get(), hit = correct.get();
      for (std::size_t row = 0; row < 4; ++row) {
        const Values own(before.begin() + static_cast<std::ptrdiff_t>(row) * padded,
                         before.begin() + static_cast<std::ptrdiff_t>(row + 1) * padded);
        const auto target = static_cast<std::int64_t>(id[row]);
        Values expected(own.size(), 0.0);
        double expected_loss = 0, expected_hit = 0;
        if (target >= 0) {
          const auto function = [&](const Values& v) {
            return row_loss(v.data(), classes, target, smoothing, z_loss);
          };
          expected_loss = function(own);
          expected = numeric_gradient(own, function);
          const auto end = own.begin() + classes;
          expected_hit = std::max_element(own.begin(), end) - own.begin() == target ? 1.0 : 0.0;
        }
        EXPECT_NEAR(loss[row], expected_loss, 4e-6);
        EXPECT_EQ(hit[row], expected_hit);
        for (std::size_t i = 0; i < own.size(); ++i) {
          ASSERT_NEAR(gradient[row * own.size() + i], 0.25 * expected[i],
                      1e-6 + rounding_of(GetParam()) * 0.25);
        }
      }
    }
  }
}

// Row 1 precedes a row without a target, row 3 a row of its own class.
TEST_P(CrossEntropy, SharesMixTheTargetWithThatOfTheNextRow) {
  constexpr std::size_t rows = 5, classes = 9;
  const GuardedTensor logits = random_tensor(GetParam(), {rows, classes}, 1, -4.0, 4.0);
  const GuardedTensor targets(DType::i32, {rows}, {2.0, 7.0, -1.0, 4.0, 4.0});
  const GuardedTensor shares(DType::f32, {rows}, {0.25, 0.25, 0.25, 0.25, 0.75});
  const GuardedTensor losses(DType::f32, {rows});
  const Values before = logits.get();
  const std::int64_t others[rows] = {7, 7, -1, 4, 2};
  const double share[rows] = {0.25, 1, 0, 1, 0.75};

  ops::cross_entropy(
      stream(), losses, {}, logits, targets,
      {{.label_smoothing = 0.1F}, classes, true, nullptr, shares.view().as<float>()});

  const Values loss = losses.get(), gradient = logits.get(), id = targets.get();
  for (std::size_t row = 0; row < rows; ++row) {
    const auto first = before.begin() + static_cast<std::ptrdiff_t>(row * classes);
    const auto function = [&](const Values& v) {
      if (others[row] < 0) return 0.0;
      const auto own = static_cast<std::int64_t>(id[row]);
      return share[row] * row_loss(v.data(), classes, own, 0.1) +
             (1 - share[row]) * row_loss(v.data(), classes, others[row], 0.1);
    };
    const Values at(first, first + classes), expected = numeric_gradient(at, function);
    EXPECT_NEAR(loss[row], function(at), 4e-6);
    for (std::size_t i = 0; i < classes; ++i)
      ASSERT_NEAR(gradient[row * classes + i], expected[i], 1e-6 + rounding_of(GetParam()));
  }
}

TEST_P(CrossEntropy, AWeightMultipliesTheLossAndTheGradientOfItsRow) {
  constexpr std::size_t rows = 4, classes = 9;
  const GuardedTensor logits = random_tensor(GetParam(), {rows, classes}, 1, -4.0, 4.0);
  const Values weight = {2.0, 0.25, 1.0, 0.0};
  const GuardedTensor weights(DType::f32, {rows}, weight);
  const GuardedTensor targets(DType::i32, {rows}, {0.0, 8.0, -1.0, 4.0});
  const GuardedTensor losses(DType::f32, {rows}), correct(DType::f32, {rows});
  const Values before = logits.get(), id = targets.get();
  ops::CrossEntropyOptions options;
  options.classes = classes;
  options.label_smoothing = 0.1F;
  options.gradient_scale = 0.25F;
  options.weights = weights.view().as<float>();

  ops::cross_entropy(stream(), losses, correct, logits, targets, options);

  const Values gradient = logits.get(), loss = losses.get();
  for (std::size_t row = 0; row < rows; ++row) {
    const Values own(before.begin() + static_cast<std::ptrdiff_t>(row * classes),
                     before.begin() + static_cast<std::ptrdiff_t>((row + 1) * classes));
    const auto target = static_cast<std::int64_t>(id[row]);
    const auto function = [&](const Values& v) {
      return target < 0 ? 0.0 : weight[row] * row_loss(v.data(), classes, target, 0.1);
    };
    const Values expected = numeric_gradient(own, function);
    EXPECT_NEAR(loss[row], function(own), 1e-5);
    for (std::size_t i = 0; i < classes; ++i) {
      ASSERT_NEAR(gradient[row * classes + i], 0.25 * expected[i],
                  1e-6 + rounding_of(GetParam()) * 0.5);
    }
  }
}

TEST_P(CrossEntropy, TheWeightOfAClassMultipliesItsRowsAndThatOfASample) {
  constexpr std::size_t rows = 4, classes = 3;
  const GuardedTensor logits = random_tensor(GetParam(), {rows, classes}, 1, -4.0, 4.0);
  const Values of_class = {0.5, 4.0, 0.0}, of_row = {2.0, 3.0, 1.0, 1.0};
  const GuardedTensor class_weights(DType::f32, {classes}, of_class);
  const GuardedTensor weights(DType::f32, {rows}, of_row);
  const GuardedTensor targets(DType::i32, {rows}, {0.0, 1.0, -1.0, 2.0});
  const GuardedTensor losses(DType::f32, {rows}), shares(DType::f32, {rows}, Values(rows, 0.5));
  const Values before = logits.get(), id = targets.get();
  ops::CrossEntropyOptions options;
  options.classes = classes;
  options.label_smoothing = 0.1F;
  options.gradient_scale = 0.25F;
  options.weights = weights.view().as<float>();
  options.class_weights = class_weights.view().as<float>();

  ops::cross_entropy(stream(), losses, {}, logits, targets, options);

  const Values gradient = logits.get(), loss = losses.get();
  for (std::size_t row = 0; row < rows; ++row) {
    const Values own(before.begin() + static_cast<std::ptrdiff_t>(row * classes),
                     before.begin() + static_cast<std::ptrdiff_t>((row + 1) * classes));
    const auto target = static_cast<std::int64_t>(id[row]);
    const auto function = [&](const Values& v) {
      return target < 0 ? 0.0
                        : of_row[row] * of_class[static_cast<std::size_t>(target)] *
                              row_loss(v.data(), classes, target, 0.1);
    };
    const Values expected = numeric_gradient(own, function);
    EXPECT_NEAR(loss[row], function(own), 4e-5);
    for (std::size_t i = 0; i < classes; ++i) {
      ASSERT_NEAR(gradient[row * classes + i], 0.25 * expected[i],
                  1e-6 + rounding_of(GetParam()) * 4);
    }
  }
  options.shares = shares.view().as<float>();
  expect_error([&] { ops::cross_entropy(stream(), losses, {}, logits, targets, options); },
               {"weights of classes", "shares"});
}

TEST_P(CrossEntropy, RowsByThreadGiveWhatRowsByBlockGive) {
  constexpr std::int64_t rows = 700, samples = 7;
  for (const std::int64_t classes : {1, 3, 17}) {
    const Shape shape{rows, classes + 2};
    const GuardedTensor logits = random_tensor(GetParam(), shape, 1, -4.0, 4.0),
                        same = random_tensor(GetParam(), shape, 1, -4.0, 4.0);
    const GuardedTensor weights = random_tensor(DType::f32, {samples}, 2, 0.0, 2.0);
    Values wanted(rows);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      wanted[i] = static_cast<double>(i % static_cast<std::size_t>(classes + 1)) - 1;
    const GuardedTensor targets(DType::i32, {rows}, wanted);
    const GuardedTensor losses(DType::f32, {rows}), correct(DType::f32, {rows});
    const GuardedTensor same_losses(DType::f32, {rows}), same_correct(DType::f32, {rows});
    ops::CrossEntropyOptions options;
    options.classes = classes;
    options.label_smoothing = 0.1F;
    options.weights = weights.view().as<float>();
    options.rows_per_weight = rows / samples;
    ops::cross_entropy(stream(), losses, correct, logits, targets, options);
    options.thread_rows = true;

    ops::cross_entropy(stream(), same_losses, same_correct, same, targets, options);

    expect_close(same_losses.get(), losses.get(), 2e-6, 2e-6);
    expect_close(same.get(), logits.get(), 2 * rounding_of(GetParam()), 1e-6);
    EXPECT_EQ(same_correct.raw(), correct.raw());
  }
}

TEST_P(CrossEntropy, LeavesTheLogitsAloneInEvaluation) {
  const GuardedTensor logits = random_tensor(GetParam(), {3, 9}, 1);
  const GuardedTensor targets(DType::i32, {3}, {0.0, -1.0, 8.0});
  const GuardedTensor losses(DType::f32, {3});
  const auto before = logits.raw();
  ops::CrossEntropyOptions options;
  options.classes = 9;
  options.write_gradient = false;

  ops::cross_entropy(stream(), losses, {}, logits, targets, options);

  EXPECT_EQ(logits.raw(), before);
  EXPECT_EQ(losses.get()[1], 0.0);
}

TEST_P(CrossEntropy, TheLossScaleMultipliesTheGradientOnly) {
  const GuardedTensor plain = random_tensor(GetParam(), {3, 9}, 1),
                      scaled = random_tensor(GetParam(), {3, 9}, 1);
  const GuardedTensor targets(DType::i32, {3}, {0.0, -1.0, 8.0});
  const GuardedTensor losses(DType::f32, {3}), same_losses(DType::f32, {3});
  const GuardedTensor scale(DType::f32, {1}, {64.0});
  ops::CrossEntropyOptions options;
  options.classes = 9;
  ops::cross_entropy(stream(), losses, {}, plain, targets, options);
  options.loss_scale = scale.view().as<float>();

  ops::cross_entropy(stream(), same_losses, {}, scaled, targets, options);

  Values expected = plain.get();
  for (double& value : expected)
    value *= 64.0;
  expect_close(scaled.get(), expected, 2 * rounding_of(GetParam()), 0.0);
  EXPECT_EQ(same_losses.raw(), losses.raw());
}

TEST_P(CrossEntropy, CountsTheFirstOfEqualMaximaAsTheAnswer) {
  const GuardedTensor logits(GetParam(), {2, 4}, {1.0, 3.0, 3.0, 0.0, 1.0, 3.0, 3.0, 0.0});
  const GuardedTensor targets(DType::i32, {2}, {1.0, 2.0});
  const GuardedTensor losses(DType::f32, {2}), correct(DType::f32, {2});
  ops::CrossEntropyOptions options;
  options.classes = 4;

  ops::cross_entropy(stream(), losses, correct, logits, targets, options);

  EXPECT_EQ(correct.get(), (Values{1.0, 0.0}));
}

TEST(CrossEntropyPrecision, HoldsForHugeLogitsAndManyClasses) {
  constexpr std::int64_t classes = 50257;
  const GuardedTensor logits = random_tensor(DType::f32, {2, classes}, 1, 900.0, 920.0);
  const GuardedTensor targets(DType::i32, {2}, {50256.0, 17.0});
  const GuardedTensor losses(DType::f32, {2});
  const Values before = logits.get();
  ops::CrossEntropyOptions options;
  options.classes = classes;

  ops::cross_entropy(stream(), losses, {}, logits, targets, options);

  const Values loss = losses.get();
  EXPECT_NEAR(loss[0], row_loss(before.data(), classes, 50256, 0.0), 2e-5);
  EXPECT_NEAR(loss[1], row_loss(before.data() + classes, classes, 17, 0.0), 2e-5);
  double sum = 0;
  for (const double value : logits.get())
    sum += value;
  EXPECT_NEAR(sum, 0.0, 1e-4);
}

TEST(CrossEntropyPrecision, ShowsANaNLogitInTheLoss) {
  const GuardedTensor logits(DType::f32, {1, 3}, {0.0, std::nan(""), 1.0});
  const GuardedTensor targets(DType::i32, {1}, {0.0});
  const GuardedTensor losses(DType::f32, {1});
  ops::CrossEntropyOptions options;
  options.classes = 3;

  ops::cross_entropy(stream(), losses, {}, logits, targets, options);

  EXPECT_TRUE(std::isnan(losses.get()[0]));
}

TEST_P(CrossEntropy, RefusesOperandsThatDoNotFit) {
  const GuardedTensor logits(GetParam(), {3, 9}, Values(27, 0.0));
  const GuardedTensor targets(DType::i32, {3}, {0.0, 7.0, 1.0});
  const GuardedTensor losses(DType::f32, {3}), few(DType::f32, {2});
  ops::CrossEntropyOptions options;
  options.classes = 9;
  const auto run = [&](const Tensor& loss) {
    ops::cross_entropy(stream(), loss, {}, logits, targets, options);
  };

  expect_error([&] { run(few); }, {"losses", "(2)", "3"});
  options.classes = 10;
  expect_error([&] { run(losses); }, {"10", "(3, 9)"});
}

TEST_P(CrossEntropy, RefusesATargetThatIsNoClass) {
  const GuardedTensor logits(GetParam(), {3, 9}, Values(27, 0.0));
  const GuardedTensor targets(DType::i32, {3}, {0.0, 7.0, 1.0});
  const GuardedTensor losses(DType::f32, {3});
  ops::CrossEntropyOptions options;
  options.classes = 6;
  const auto run = [&] { ops::cross_entropy(stream(), losses, {}, logits, targets, options); };

  if (stream().device().type() == DeviceType::cpu) {
    expect_error(run, {"target 7", "6 classes"});
    return;
  }
  run();  // a GPU cannot raise an error: the loss shows it
  EXPECT_FALSE(std::isnan(losses.get()[0]));
  EXPECT_TRUE(std::isnan(losses.get()[1]));
}

TEST(CountTargets, AddsThoseThatAreNotIgnored) {
  Values labels(2500, 3.0);
  for (std::size_t i = 0; i < labels.size(); i += 7)
    labels[i] = -1.0;
  const GuardedTensor targets(DType::i32, {50, 50}, labels), total(DType::f64, {1}, {10.0});

  ops::count_targets(stream(), total, targets);

  EXPECT_EQ(total.get()[0], 10 + 2500 - 358);
}

TEST(CountTargets, AddsValuesThatAreNotNaN) {
  const double none = std::nan("");
  const GuardedTensor targets(DType::f32, {2, 3}, {-1.0, none, 0.0, 2.5, none, none});
  const GuardedTensor total(DType::f64, {1}, {10.0});

  ops::count_targets(stream(), total, targets);

  EXPECT_EQ(total.get()[0], 13);
}

}  // namespace
}  // namespace trireme
