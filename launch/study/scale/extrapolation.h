// SPDX-License-Identifier: Apache-2.0
// The planner's predictions, corrected by the measured points.
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
  // Measured / predicted: median over all points except those with most ranks.
  double correction = 1;
  // A point with most ranks, excluded from `correction`: predicted / measured - 1.
  struct HeldOut {
    Point point{};
    double error = 0;
  };
  std::vector<HeldOut> held_out{};
  std::vector<Prediction> predictions{};  // by ranks
};

// For each mode with points of at least two rank counts: doubles the data ranks of its last point
// up to `nodes` nodes of parallel.hardware, corrected by all of its points. Omits rank counts that
// the config refuses. Empty without parallel.hardware.
[[nodiscard]] std::vector<Extrapolation> extrapolate(const Study& study, std::span<const Row> rows,
                                                     int nodes = 256);

}  // namespace trireme::scale
