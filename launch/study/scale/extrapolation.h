// SPDX-License-Identifier: Apache-2.0
// What the planner, corrected by the measured points, predicts beyond them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/study/scale/split.h"
#include "launch/study/scale/study.h"

namespace trireme::scale {

struct Prediction {
  Point point{};
  double seconds = 0;     // per step
  double efficiency = 0;  // against the measured base of its mode
};

struct Extrapolation {
  Mode mode = Mode::weak;
  // Measured / predicted: the median over the points, the largest left out.
  double correction = 1;
  // Of the largest number of ranks, which did not count for `correction`: predicted / measured - 1.
  struct HeldOut {
    Point point{};
    double error = 0;
  };
  std::vector<HeldOut> held_out{};
  std::vector<Prediction> predictions{};  // by ranks
};

// For each mode with points of two numbers of ranks or more: by doubling the data ranks of its last
// point as far as `nodes` nodes of parallel.hardware go, corrected by all of its points. Numbers of
// ranks that the config refuses are left out. Empty without parallel.hardware.
[[nodiscard]] std::vector<Extrapolation> extrapolate(const Study& study, std::span<const Row> rows,
                                                     int nodes = 256);

}  // namespace trireme::scale
