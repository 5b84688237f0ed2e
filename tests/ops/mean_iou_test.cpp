// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/loss/mean_iou.h"

#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;
using Values = std::vector<double>;

class MeanIou : public TypedOp {};
INSTANTIATE_TEST_SUITE_P(Types, MeanIou, ::testing::Values(DType::f32, DType::bf16, DType::f16),
                         dtype_label);

struct Overlap {
  double iou = 0, dice = 0;
};

// One sample, with sets of pixels.
Overlap overlap(const Values& logits, const Values& targets, std::size_t first, std::size_t rows,
                std::size_t stride, std::size_t classes) {
  Overlap sum;
  double counted = 0;
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
      counted += actual ? 1 : 0;
    }
    sum.iou += either == 0 ? 1 : both / either;
    if (c > 0) sum.dice += either == 0 ? 1 : 2 * both / (both + either);
  }
  return {counted * sum.iou / static_cast<double>(classes),
          counted * sum.dice / static_cast<double>(classes - 1)};
}

TEST_P(MeanIou, IsTheMeanOverClassesOfEachSampleTimesItsCountedPixels) {
  for (const std::size_t classes : {2U, 3U, 40U}) {
    constexpr std::size_t samples = 3, rows = 1300;
    const std::size_t stride = classes + 2;
    const GuardedTensor logits = random_tensor(
        GetParam(), {static_cast<std::int64_t>(samples * rows), static_cast<std::int64_t>(stride)},
        1);
    Values wanted(samples * rows);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      wanted[i] = static_cast<double>((i * i / 3) % (classes + 1)) - 1;
    std::fill_n(wanted.begin() + rows, rows, -1.0);  // nothing counts in the second sample
    const GuardedTensor targets(DType::i32, {static_cast<std::int64_t>(wanted.size())}, wanted);
    const GuardedTensor overlaps(DType::f32, {2, samples});

    ops::mean_iou(stream(), overlaps, logits, targets, static_cast<std::int64_t>(classes));

    const Values values = logits.get(), result = overlaps.get();
    for (std::size_t sample = 0; sample < samples; ++sample) {
      const auto [iou, dice] = overlap(values, wanted, sample * rows, rows, stride, classes);
      EXPECT_NEAR(result[sample], iou, 1e-6 * iou);
      EXPECT_NEAR(result[samples + sample], dice, 2e-6 * dice);
    }
    EXPECT_EQ(result[1], 0);
  }
}

TEST_P(MeanIou, CountsAClassThatIsNeitherPredictedNorTrueAsOverlapping) {
  const GuardedTensor logits(GetParam(), {4, 3}, {1, 0, 0, 1, 0, 0, 0, 1, 0, 1, 1, 0});
  const GuardedTensor targets(DType::i32, {4}, {0, 1, 1, -1}), overlaps(DType::f32, {2, 1});

  ops::mean_iou(stream(), overlaps, logits, targets, 3);

  EXPECT_NEAR(overlaps.get()[0], 3 * (0.5 + 0.5 + 1) / 3, 1e-6);
  EXPECT_NEAR(overlaps.get()[1], 3 * (2.0 / 3 + 1) / 2, 1e-5);
}

TEST_P(MeanIou, RefusesOperandsThatDoNotFit) {
  const GuardedTensor logits(GetParam(), {6, 3}), targets(DType::i32, {6}), few(DType::i32, {5});
  const GuardedTensor overlaps(DType::f32, {2, 2}), four(DType::f32, {2, 4});
  const auto run = [&](const Tensor& to, const Tensor& wanted, std::int64_t classes) {
    ops::mean_iou(stream(), to, logits, wanted, classes);
  };

  expect_error([&] { run(overlaps, few, 3); }, {"targets", "(5)", "6"});
  expect_error([&] { run(four, targets, 3); }, {"6 pixels", "(2, 4)"});
  expect_error([&] { run(overlaps, targets, 4); }, {"4 classes", "(6, 3)"});
}

}  // namespace
}  // namespace trireme
