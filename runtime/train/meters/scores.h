// SPDX-License-Identifier: Apache-2.0
// Scores of predictions that are no means over targets, as scikit-learn defines them. Pure
// functions in double precision; a score that is undefined for the data is absent.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace trireme {

struct Scores {
  std::optional<double> accuracy{};  // of labels: share of the samples with all of them right
  std::optional<double> f1{};        // mean over the classes or labels
  std::optional<double> f1_micro{};  // of labels: over all decisions together
  std::optional<double> auc{};       // area under the ROC curve: of two classes, mean over labels
  std::optional<double> r2{};        // coefficient of determination, mean over the values
};

// By target: its class, and the predicted one; F1 is over the classes that occur in either.
// `margins`: of two classes the score of class 1 over class 0, else empty.
[[nodiscard]] Scores class_scores(std::span<const std::int64_t> targets,
                                  std::span<const std::int64_t> predicted,
                                  std::span<const float> margins);

// (samples, K) targets, 0 or 1 (NaN: none), and logits, which predict a label above 0.
[[nodiscard]] Scores label_scores(std::span<const float> targets, std::span<const float> logits,
                                  std::int64_t labels);

// (samples, K) targets (NaN: none) and predictions.
[[nodiscard]] Scores value_scores(std::span<const float> targets, std::span<const float> predicted,
                                  std::int64_t values);

}  // namespace trireme
