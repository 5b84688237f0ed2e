// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/meters/scores.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

namespace trireme {
namespace {

struct Confusion {
  double right = 0, predicted = 0, actual = 0;

  // 0 where neither occurs, as scikit-learn's zero_division.
  [[nodiscard]] double f1() const {
    return predicted + actual > 0 ? 2 * right / (predicted + actual) : 0;
  }
};

// Mann and Whitney, 1947: how often a positive scores above a negative; ties count half.
std::optional<double> area_under_roc(std::vector<std::pair<float, bool>> scored) {
  if (std::ranges::any_of(scored, [](const auto& one) { return std::isnan(one.first); })) return {};
  std::ranges::sort(scored, {}, &std::pair<float, bool>::first);
  double below = 0, positives = 0, area = 0;  // negatives so far
  for (std::size_t first = 0; first < scored.size();) {
    double here[2] = {};
    std::size_t end = first;
    for (; end < scored.size() && scored[end].first == scored[first].first; ++end)
      ++here[scored[end].second ? 1 : 0];
    area += here[1] * (below + 0.5 * here[0]);
    below += here[0];
    positives += here[1];
    first = end;
  }
  if (below == 0 || positives == 0) return {};
  return area / (below * positives);
}

// Calls look(sample) for those with a target in this column.
template <typename Look>
void each_of_column(std::span<const float> targets, std::int64_t columns, std::int64_t column,
                    Look&& look) {
  for (auto i = static_cast<std::size_t>(column); i < targets.size();
       i += static_cast<std::size_t>(columns))
    if (!std::isnan(targets[i])) look(i);
}

}  // namespace

Scores class_scores(std::span<const std::int64_t> targets, std::span<const std::int64_t> predicted,
                    std::span<const float> margins) {
  std::map<std::int64_t, Confusion> classes;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    ++classes[targets[i]].actual;
    ++classes[predicted[i]].predicted;
    if (targets[i] == predicted[i]) ++classes[targets[i]].right;
  }
  Scores scores;
  if (classes.empty()) return scores;
  double sum = 0;
  for (const auto& [number, confusion] : classes)
    sum += confusion.f1();
  scores.f1 = sum / static_cast<double>(classes.size());
  if (margins.empty()) return scores;
  std::vector<std::pair<float, bool>> scored;
  for (std::size_t i = 0; i < targets.size(); ++i)
    scored.emplace_back(margins[i], targets[i] == 1);
  scores.auc = area_under_roc(std::move(scored));
  return scores;
}

Scores label_scores(std::span<const float> targets, std::span<const float> logits,
                    std::int64_t labels) {
  Scores scores;
  Confusion all;
  double f1 = 0, area = 0;
  bool defined = true;
  for (std::int64_t label = 0; label < labels; ++label) {
    Confusion own;
    std::vector<std::pair<float, bool>> scored;
    each_of_column(targets, labels, label, [&](std::size_t i) {
      const bool actual = targets[i] > 0.5F, predicted = logits[i] > 0;
      own.actual += actual ? 1 : 0;
      own.predicted += predicted ? 1 : 0;
      own.right += actual && predicted ? 1 : 0;
      scored.emplace_back(logits[i], actual);
    });
    f1 += own.f1();
    all.actual += own.actual;
    all.predicted += own.predicted;
    all.right += own.right;
    const auto of_label = area_under_roc(std::move(scored));
    defined = defined && of_label;
    area += of_label.value_or(0);
  }
  const auto width = static_cast<std::size_t>(labels);
  double samples = 0, right = 0;
  for (std::size_t i = 0; i < targets.size(); i += width) {
    bool counts = false, good = true;
    for (std::size_t j = i; j < i + width; ++j) {
      if (std::isnan(targets[j])) continue;
      counts = true;
      good = good && (targets[j] > 0.5F) == (logits[j] > 0);
    }
    samples += counts ? 1 : 0;
    right += counts && good ? 1 : 0;
  }
  if (samples == 0) return scores;
  scores.accuracy = right / samples;
  scores.f1 = f1 / static_cast<double>(labels);
  scores.f1_micro = all.f1();
  if (defined) scores.auc = area / static_cast<double>(labels);
  return scores;
}

Scores value_scores(std::span<const float> targets, std::span<const float> predicted,
                    std::int64_t values) {
  double sum = 0;
  for (std::int64_t value = 0; value < values; ++value) {
    double count = 0, mean = 0, errors = 0, spread = 0;
    each_of_column(targets, values, value, [&](std::size_t i) {
      ++count;
      mean += static_cast<double>(targets[i]);
    });
    if (count < 2) return {};
    mean /= count;
    each_of_column(targets, values, value, [&](std::size_t i) {
      const auto target = static_cast<double>(targets[i]);
      errors += std::pow(target - static_cast<double>(predicted[i]), 2);
      spread += std::pow(target - mean, 2);
    });
    // As scikit-learn scores constant targets.
    sum += spread > 0 ? 1 - errors / spread : errors == 0 ? 1 : 0;
  }
  Scores scores;
  scores.r2 = sum / static_cast<double>(values);
  return scores;
}

}  // namespace trireme
