// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/loss/cross_entropy.h"

#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;
using Values = std::vector<double>;

class DiceCrossEntropy : public TypedOp {};
INSTANTIATE_TEST_SUITE_P(Types, DiceCrossEntropy,
                         ::testing::Values(DType::f32, DType::bf16, DType::f16), dtype_label);

struct Sizes {
  std::size_t samples, pixels, classes, stride;

  [[nodiscard]] std::size_t rows() const { return samples * pixels; }
};

// The loss of each pixel, as MLPerf's U-Net 3D computes the loss of one sample.
Values losses_of(const Values& logits, const Values& targets, const Sizes& sizes,
                 const Values& sample_weights, const Values& class_weights) {
  constexpr double smoothing = 1e-6;
  Values losses(sizes.rows());
  for (std::size_t sample = 0; sample < sizes.samples; ++sample) {
    Values both(sizes.classes), predicted(sizes.classes), actual(sizes.classes);
    for (std::size_t row = sample * sizes.pixels; row < (sample + 1) * sizes.pixels; ++row) {
      if (targets[row] < 0) continue;
      const auto target = static_cast<std::size_t>(targets[row]);
      double sum = 0;
      for (std::size_t c = 0; c < sizes.classes; ++c)
        sum += std::exp(logits[row * sizes.stride + c]);
      for (std::size_t c = 0; c < sizes.classes; ++c)
        predicted[c] += std::exp(logits[row * sizes.stride + c]) / sum;
      const double p = std::exp(logits[row * sizes.stride + target]) / sum;
      both[target] += p;
      actual[target] += 1;
      losses[row] = -std::log(p) * class_weights[target];
    }
    double dice = 0;
    for (std::size_t c = 1; c < sizes.classes; ++c) {
      dice += 1 - (2 * both[c] + smoothing) / (predicted[c] + actual[c] + smoothing);
    }
    dice /= static_cast<double>(sizes.classes - 1);
    for (std::size_t row = sample * sizes.pixels; row < (sample + 1) * sizes.pixels; ++row)
      losses[row] = targets[row] < 0 ? 0 : sample_weights[sample] * (losses[row] + dice) / 2;
  }
  return losses;
}

struct Case {
  Sizes sizes;
  DType dtype;
  GuardedTensor logits = random_tensor(
      dtype, {static_cast<std::int64_t>(sizes.rows()), static_cast<std::int64_t>(sizes.stride)}, 1,
      -2.0, 2.0);
  Values wanted = Values(sizes.rows());
  Values sample_weights = {1.0, 0.5, 2.0};
  Values class_weights =
      random_values(static_cast<std::int64_t>(sizes.classes), 3, DType::f32, 0.5, 2);

  Case(const Sizes& of, DType type) : sizes(of), dtype(type) {
    for (std::size_t i = 0; i < wanted.size(); ++i)
      wanted[i] = static_cast<double>((i * i / 3) % (sizes.classes + 1)) - 1;
    // In the first sample class 1 is absent, in the last nothing counts.
    for (std::size_t i = 0; i < sizes.pixels; ++i) {
      if (wanted[i] == 1) wanted[i] = 0;
    }
    std::fill(wanted.end() - static_cast<std::ptrdiff_t>(sizes.pixels), wanted.end(), -1.0);
  }
};

TEST_P(DiceCrossEntropy, LossesAndGradientsMatchFiniteDifferences) {
  for (const Sizes& sizes :
       {Sizes{3, 35, 2, 2}, Sizes{3, 29, 3, 5}, Sizes{3, 9001, 3, 4}, Sizes{3, 31, 11, 11}}) {
    const Case of(sizes, GetParam());
    const auto rows = static_cast<std::int64_t>(sizes.rows());
    const GuardedTensor targets(DType::i32, {rows}, of.wanted), losses(DType::f32, {rows}),
        correct(DType::f32, {rows});
    const GuardedTensor weights(DType::f32, {3}, of.sample_weights);
    const GuardedTensor class_weights(DType::f32, {static_cast<std::int64_t>(sizes.classes)},
                                      of.class_weights);
    const Values before = of.logits.get();
    const auto all = [&](const Values& logits) {
      return losses_of(logits, of.wanted, sizes, of.sample_weights, of.class_weights);
    };
    const auto sum = [&](const Values& logits) {
      double total = 0;
      for (const double loss : all(logits))
        total += loss;
      return total;
    };
    ops::CrossEntropyOptions options;
    options.classes = static_cast<std::int64_t>(sizes.classes);
    options.gradient_scale = 0.25F;
    options.weights = weights.view().as<float>();
    options.class_weights = class_weights.view().as<float>();
    options.rows_per_weight = static_cast<std::int64_t>(sizes.pixels);

    ops::dice_cross_entropy(stream(), losses, correct, of.logits, targets, options);

    expect_close(losses.get(), all(before), 3e-5, 1e-5);
    const Values gradient = of.logits.get();
    const std::size_t step = before.size() < 1000 ? 1 : 4001;
    for (std::size_t i = 0; i < before.size(); i += step) {
      Values moved = before;
      moved[i] += 1e-4;
      const double up = sum(moved);
      moved[i] -= 2e-4;
      const bool padding = i % sizes.stride >= sizes.classes;
      const double expected = padding ? 0 : 0.25 * (up - sum(moved)) / 2e-4;
      ASSERT_NEAR(gradient[i], expected, 1e-5 + rounding_of(GetParam()) * std::abs(expected)) << i;
    }
  }
}

TEST_P(DiceCrossEntropy, KeepsTheLogitsInEvaluationAndFindsTheSameLosses) {
  const Sizes sizes{3, 5003, 3, 3};
  const Case one(sizes, GetParam()), two(sizes, GetParam());
  const auto rows = static_cast<std::int64_t>(sizes.rows());
  const GuardedTensor targets(DType::i32, {rows}, one.wanted), losses(DType::f32, {rows}),
      correct(DType::f32, {rows}), again(DType::f32, {rows}), hits(DType::f32, {rows});
  const Values before = one.logits.get();
  ops::CrossEntropyOptions options;
  options.classes = 3;
  options.rows_per_weight = 5003;

  ops::dice_cross_entropy(stream(), losses, correct, one.logits, targets, options);
  options.write_gradient = false;
  ops::dice_cross_entropy(stream(), again, hits, two.logits, targets, options);

  EXPECT_EQ(two.logits.get(), before);
  EXPECT_EQ(again.raw(), losses.raw());
  EXPECT_EQ(hits.raw(), correct.raw());
  for (std::size_t row = 0; row < sizes.rows(); ++row) {
    const auto first = before.begin() + static_cast<std::ptrdiff_t>(row * 3);
    const auto best = static_cast<double>(std::max_element(first, first + 3) - first);
    ASSERT_EQ(hits.get()[row], best == one.wanted[row] ? 1 : 0);
    if (row == 200) break;
  }
}

TEST_P(DiceCrossEntropy, RefusesOperandsThatDoNotFit) {
  const GuardedTensor logits(GetParam(), {6, 3}), targets(DType::i32, {6}), few(DType::i32, {5});
  const GuardedTensor losses(DType::f32, {6}), correct(DType::f32, {6});
  const auto run = [&](const Tensor& wanted, std::int64_t classes, std::int64_t pixels) {
    ops::CrossEntropyOptions options;
    options.classes = classes;
    options.rows_per_weight = pixels;
    ops::dice_cross_entropy(stream(), losses, correct, logits, wanted, options);
  };

  expect_error([&] { run(few, 3, 6); }, {"targets", "(5)", "6"});
  expect_error([&] { run(targets, 1, 6); }, {"dice_cross_entropy", "1 classes"});
  expect_error([&] { run(targets, 3, 4); }, {"6 rows", "4"});
}

}  // namespace
}  // namespace trireme
