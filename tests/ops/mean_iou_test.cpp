// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/loss/mean_iou.h"

#include "runtime/ops/update/loss_sums.h"
#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;
using Values = std::vector<double>;

class MeanIou : public TypedOp {};
INSTANTIATE_TEST_SUITE_P(Types, MeanIou, ::testing::Values(DType::f32, DType::bf16, DType::f16),
                         dtype_label);

// One sample, with sets of pixels: the rows of its column.
Values score(const Values& logits, const Values& targets, std::size_t first, std::size_t rows,
             std::size_t stride, std::size_t classes, const Values& losses, bool absent_counts) {
  double counted = 0, loss = 0, iou = 0, dice = 0, seen = 0, marked = 0;
  for (std::size_t row = first; row < first + rows; ++row) {
    counted += targets[row] < 0 ? 0 : 1;
    loss += losses[row];
  }
  if (counted == 0) return Values(ops::LossSums::count);
  for (std::size_t c = 0; c < classes; ++c) {
    double both = 0, either = 0;
    for (std::size_t row = first; row < first + rows; ++row) {
      if (targets[row] < 0) continue;
      const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(row * stride);
      const bool predicted =
          std::max_element(begin, begin + static_cast<std::ptrdiff_t>(classes)) - begin ==
          static_cast<std::ptrdiff_t>(c);
      const bool actual = targets[row] == static_cast<double>(c);
      both += predicted && actual ? 1 : 0;
      either += predicted || actual ? 1 : 0;
    }
    if (either == 0 && !absent_counts) continue;
    seen += 1;
    iou += either == 0 ? 1 : both / either;
    marked += c > 0 ? 1 : 0;
    if (c > 0) dice += either == 0 ? 1 : 2 * both / (both + either);
  }
  return {loss / counted,
          loss / counted / 2,
          iou / seen,
          marked == 0 ? 0 : dice / marked,
          counted,
          1,
          marked == 0 ? 0.0 : 1.0};
}

TEST_P(MeanIou, IsTheMeanOverClassesOfEachSample) {
  for (const std::size_t classes : {2U, 3U, 40U}) {
    for (const bool absent_counts : {false, true}) {
      constexpr std::size_t samples = 4, rows = 1300;
      const std::size_t stride = classes + 2;
      const auto pixels = static_cast<std::int64_t>(samples * rows);
      const GuardedTensor logits =
          random_tensor(GetParam(), {pixels, static_cast<std::int64_t>(stride)}, 1);
      Values wanted(samples * rows), lost(samples * rows);
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        wanted[i] = static_cast<double>((i * i / 3) % (classes + 1)) - 1;
        if (i / rows == 1) wanted[i] = -1;                     // nothing counts
        if (i / rows == 2) wanted[i] = i % rows < 3 ? 0 : -1;  // most classes are absent
        lost[i] = wanted[i] < 0 ? 0 : static_cast<double>(i % 7);
      }
      Values half = lost;
      for (double& value : half)
        value /= 2;
      const GuardedTensor targets(DType::i32, {pixels}, wanted), losses(DType::f32, {pixels}, lost),
          correct(DType::f32, {pixels}, half), scores(DType::f32, {ops::LossSums::count, samples});

      ops::mean_iou(stream(), scores, losses, correct, logits, targets,
                    {static_cast<std::int64_t>(classes), absent_counts});

      const Values values = logits.get(), result = scores.get();
      for (std::size_t sample = 0; sample < samples; ++sample) {
        const Values expected =
            score(values, wanted, sample * rows, rows, stride, classes, lost, absent_counts);
        for (std::size_t i = 0; i < expected.size(); ++i)
          EXPECT_NEAR(result[i * samples + sample], expected[i], 2e-6 * (1 + expected[i]))
              << classes << " " << absent_counts << " " << sample << " " << i;
      }
    }
  }
}

TEST_P(MeanIou, LeavesOutAClassThatIsNeitherPredictedNorTrueUnlessItCounts) {
  const GuardedTensor logits(GetParam(), {4, 3}, {1, 0, 0, 1, 0, 0, 0, 1, 0, 1, 1, 0});
  const GuardedTensor targets(DType::i32, {4}, {0, 1, 1, -1}), rows(DType::f32, {4}),
      scores(DType::f32, {ops::LossSums::count, 1});

  ops::mean_iou(stream(), scores, rows, rows, logits, targets, {3});
  EXPECT_NEAR(scores.get()[ops::LossSums::second], 0.5, 1e-6);
  EXPECT_NEAR(scores.get()[ops::LossSums::third], 2.0 / 3, 1e-6);

  ops::mean_iou(stream(), scores, rows, rows, logits, targets, {3, true});
  EXPECT_NEAR(scores.get()[ops::LossSums::second], (0.5 + 0.5 + 1) / 3, 1e-6);
  EXPECT_NEAR(scores.get()[ops::LossSums::third], (2.0 / 3 + 1) / 2, 1e-6);
}

TEST_P(MeanIou, OfBackgroundAloneHasNoDice) {
  const GuardedTensor logits(GetParam(), {2, 2}, {1, 0, 1, 0}), rows(DType::f32, {2}, {0, 0});
  const GuardedTensor targets(DType::i32, {2}, {0, 0}),
      scores(DType::f32, {ops::LossSums::count, 1});

  ops::mean_iou(stream(), scores, rows, rows, logits, targets, {2});

  EXPECT_EQ(scores.get(), (Values{0, 0, 1, 0, 2, 1, 0}));
}

TEST_P(MeanIou, RefusesOperandsThatDoNotFit) {
  const GuardedTensor logits(GetParam(), {6, 3}), targets(DType::i32, {6}), few(DType::i32, {5});
  const GuardedTensor overlaps(DType::f32, {ops::LossSums::count, 2}), rows(DType::f32, {6}),
      four(DType::f32, {ops::LossSums::count, 4});
  const auto run = [&](const Tensor& to, const Tensor& wanted, std::int64_t classes) {
    ops::mean_iou(stream(), to, rows, rows, logits, wanted, {classes});
  };

  expect_error([&] { run(overlaps, few, 3); }, {"targets", "(5)", "6"});
  expect_error([&] { run(four, targets, 3); }, {"6 pixels", "(7, 4)"});
  expect_error([&] { run(overlaps, targets, 4); }, {"4 classes", "(6, 3)"});
}

}  // namespace
}  // namespace trireme
