// SPDX-License-Identifier: Apache-2.0
// What an evaluation measures of predictions besides the loss, once: keys of metrics.jsonl, and how
// people read them.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

// Which of them a model has depends on the kind of its targets.
struct Qualities {
  std::optional<double> accuracy{};   // 0..1: share of the targets predicted correctly
  std::optional<double> f1{};         // 0..1: of classes or labels, mean over these
  std::optional<double> f1_micro{};   // the same of all labels together
  std::optional<double> auc{};        // 0..1: area under the ROC curve, of 2 classes or of labels
  std::optional<double> r2{};         // up to 1: share of the values' variance that is predicted
  std::optional<double> mae{};        // mean absolute error of predicted values
  std::optional<double> vrmse{};      // root of the mean squared error by the deviation, of maps
  std::optional<double> mean_iou{};   // 0..1: overlap of predicted and true pixels
  std::optional<double> mean_dice{};  // 0..1: likewise, by their mean number, without class 0
};

struct Quality {
  std::string_view key;
  std::optional<double> Qualities::*value;
  bool is_share;  // people read per cent
  bool higher_is_better;

  [[nodiscard]] bool is_better(double one, double other) const {
    return higher_is_better ? one > other : one < other;
  }
};

inline constexpr std::array qualities{Quality{"accuracy", &Qualities::accuracy, true, true},
                                      Quality{"f1", &Qualities::f1, true, true},
                                      Quality{"f1_micro", &Qualities::f1_micro, true, true},
                                      Quality{"auc", &Qualities::auc, true, true},
                                      Quality{"r2", &Qualities::r2, false, true},
                                      Quality{"mae", &Qualities::mae, false, false},
                                      Quality{"vrmse", &Qualities::vrmse, false, false},
                                      Quality{"mean_iou", &Qualities::mean_iou, true, true},
                                      Quality{"mean_dice", &Qualities::mean_dice, true, true}};

// "91.23 %"
[[nodiscard]] std::string quality_number(const Quality& quality, double value);
// "accuracy 91.23 %"
[[nodiscard]] std::string quality_text(const Quality& quality, double value);
// Of those that there are, with `before` in front of each.
[[nodiscard]] std::string qualities_text(const Qualities& values, std::string_view before);

}  // namespace trireme
