// SPDX-License-Identifier: Apache-2.0
// A cell's loss by step, items, time and cost.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/study/ablate/study.h"

namespace trireme::ablate {

inline constexpr double seconds_per_hour = 3600;

// The axis on which two cells are compared. Cost is time times ranks, which are the same for all
// cells.
enum class Axis : std::uint8_t { steps, items, seconds };

struct Curve {
  // After a step. Seconds count steps and evaluations from the first step on, but not start,
  // checkpoints, and reads up to the position from which a run resumes.
  struct Place {
    double steps = 0, items = 0, seconds = 0;
    [[nodiscard]] double at(Axis axis) const {
      return axis == Axis::steps ? steps : axis == Axis::items ? items : seconds;
    }
  };
  struct Value {
    Place place{};
    double loss = 0;  // NaN: loss was not finite
  };
  std::vector<Value> training{}, evaluations{};  // by step

  [[nodiscard]] Place end() const { return training.empty() ? Place{} : training.back().place; }
  // Drops values after `step`.
  void cut(std::int64_t step);
};

// From a run's metrics.jsonl; unusable lines are skipped. Raises ExitCode::data if the file cannot
// be read.
[[nodiscard]] Curve read_curve(const std::string& path, const std::string& item_name);

// The study's metric at `amount` of `axis`. The validation loss is interpolated linearly between
// evaluations, and constant after the last. Nothing before the first evaluation, or step.
[[nodiscard]] std::optional<double> metric_at(const Study& study, const Curve& curve, Axis axis,
                                              double amount);

}  // namespace trireme::ablate
