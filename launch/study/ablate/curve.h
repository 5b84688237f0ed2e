// SPDX-License-Identifier: Apache-2.0
// What a cell has learned, by step, items, time and cost.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/study/ablate/study.h"

namespace trireme::ablate {

inline constexpr double seconds_per_hour = 3600;

// What two cells are compared at equal amounts of. Cost is time times ranks, which all cells have
// alike.
enum class Axis : std::uint8_t { steps, items, seconds };

struct Curve {
  // After a step. Seconds are those of steps and evaluations, from the first step on: without
  // start, checkpoints, and waits for the place where the run was to go on.
  struct Place {
    double steps = 0, items = 0, seconds = 0;
    [[nodiscard]] double at(Axis axis) const {
      return axis == Axis::steps ? steps : axis == Axis::items ? items : seconds;
    }
  };
  struct Value {
    Place place{};
    double loss = 0;  // NaN: was none
  };
  std::vector<Value> training{}, evaluations{};  // by step

  [[nodiscard]] Place end() const { return training.empty() ? Place{} : training.back().place; }
  // Forgets what came after `step`.
  void cut(std::int64_t step);
};

// Of a run's metrics.jsonl; lines that cannot be used are passed over. Raises ExitCode::data where
// the file cannot be read.
[[nodiscard]] Curve read_curve(const std::string& path, const std::string& item_name);

// The study's metric at `amount` of `axis`: the validation loss between two evaluations is that of
// the line between them, after the last one its own. Nothing before the first evaluation, or step.
[[nodiscard]] std::optional<double> metric_at(const Study& study, const Curve& curve, Axis axis,
                                              double amount);

}  // namespace trireme::ablate
