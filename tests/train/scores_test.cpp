// SPDX-License-Identifier: Apache-2.0
// Expected values are scikit-learn 1.5's, or follow by hand.
#include "runtime/train/meters/scores.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace trireme {
namespace {

const float none = std::nanf("");
using Floats = std::vector<float>;
using Classes = std::vector<std::int64_t>;

TEST(ClassScores, F1IsTheMeanOverClassesThatOccurOrArePredicted) {
  // Class 0: 2 right of 2 predicted and 3 actual; 1: 1 of 3 and 1; 2, 4 and 5: none; no 3.
  const Classes targets{0, 0, 0, 1, 2, 4}, predicted{0, 0, 1, 1, 1, 5};

  const Scores scores = class_scores(targets, predicted, {});

  EXPECT_DOUBLE_EQ(*scores.f1, (4.0 / 5 + 2.0 / 4 + 0 + 0 + 0) / 5);
  EXPECT_FALSE(scores.auc || scores.r2 || scores.f1_micro);
}

TEST(ClassScores, AreaUnderTheCurveCountsPairsAndTiesHalf) {
  const Classes targets{1, 0, 1, 0, 1}, predicted{1, 1, 1, 0, 0};
  const Floats margins{0.8F, 0.4F, 0.4F, -1, 0.1F};

  // Of 6 pairs: 0.8 wins both, 0.4 ties one and wins one, 0.1 wins one.
  EXPECT_DOUBLE_EQ(*class_scores(targets, predicted, margins).auc, 4.5 / 6);
}

TEST(ClassScores, HaveNoAreaOfASingleClassOrOfNotANumber) {
  EXPECT_FALSE(class_scores(Classes{1, 1}, Classes{1, 0}, Floats{1, -1}).auc);
  EXPECT_FALSE(class_scores(Classes{1, 0}, Classes{1, 0}, Floats{none, -1}).auc);
  EXPECT_FALSE(class_scores({}, {}, {}).f1);
}

TEST(LabelScores, CountSamplesWithAllLabelsRightAndDecisionsTogether) {
  const Floats targets{1, 0, 1, 0, 1, 0, 1, 1, 0}, logits{2, -1, -1, -1, 3, 1, 1, 0.5F, -2};

  const Scores scores = label_scores(targets, logits, 3);

  EXPECT_DOUBLE_EQ(*scores.accuracy, 1.0 / 3);
  // Labels: 2 of 2 and 2; 2 of 2 and 2; 0 of 1 predicted and 1 actual.
  EXPECT_DOUBLE_EQ(*scores.f1, 2.0 / 3);
  EXPECT_DOUBLE_EQ(*scores.f1_micro, 2 * 4.0 / (5 + 5));
  EXPECT_DOUBLE_EQ(*scores.auc, (1 + 1 + 0.5) / 3);
}

TEST(LabelScores, LeaveOutPaddingAndHaveNoAreaWhereALabelNeverHolds) {
  const Floats targets{1, 0, none, none}, logits{2, -1, -5, 5};

  const Scores scores = label_scores(targets, logits, 2);

  EXPECT_EQ(*scores.accuracy, 1);
  EXPECT_FALSE(scores.auc);
}

TEST(ValueScores, R2IsTheMeanOverValues) {
  const Floats targets{1, 10, 2, 20, 3, none}, predicted{1, 10, 2, 20, 4, 7};

  // The first: 1 - 1 / 2. The second is exact, and its last target does not count.
  EXPECT_DOUBLE_EQ(*value_scores(targets, predicted, 2).r2, (0.5 + 1) / 2);
}

TEST(ValueScores, R2OfConstantTargetsIsOneIfExactElseZero) {
  EXPECT_EQ(*value_scores(Floats{2, 2}, Floats{2, 2}, 1).r2, 1);
  EXPECT_EQ(*value_scores(Floats{2, 2}, Floats{2, 3}, 1).r2, 0);
  EXPECT_FALSE(value_scores(Floats{2}, Floats{2}, 1).r2);
}

}  // namespace
}  // namespace trireme
