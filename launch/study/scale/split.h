// SPDX-License-Identifier: Apache-2.0
// Scaling efficiency of a study's points, and the causes of the losses.
//
// The base of a mode is its first point. With k = (batch / base batch) * (base ranks / ranks) the
// ideal step takes k times the base's: a rank does as much work per second as in the base. To a
// fixed loss k = base ranks / ranks, and all times are sums up to that loss, so that samples which
// a larger batch needs more of count as lost, in compute. Then
//   efficiency = ideal / measured,   gap = measured - ideal,
//   gap = sum over the parts of (part - k * part of the base),
// which adds up because the parts of a step do. A loss below 0 is a gain.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "launch/study/scale/runner.h"
#include "launch/study/statistics.h"

namespace trireme::scale {

inline constexpr int loss_count = 6;
inline constexpr std::array<std::string_view, loss_count> loss_names = {
    "exposed_comm", "bubble", "data_wait", "straggler", "cpu_contention", "compute_slowdown"};
inline constexpr std::array<std::string_view, loss_count> loss_titles = {
    "exposed communication", "pipeline bubble", "data wait", "straggler",
    "CPU contention",        "compute slowdown"};

struct Spread {
  double median = 0, min = 0, max = 0;
};

struct Row {
  Point point;
  std::vector<std::optional<RunResult>> runs;
  int good = 0;  // successful runs; 0: nothing below is set
  // Of the run with the median step time; means of the middle two for an even number of runs. The
  // parts add up in both cases.
  Times parts{};
  double steps = 1;      // summed in the parts; more than one for a fixed loss
  int slowest_rank = 0;  // of the slower of the two
  RunPlace place{};
  Spread samples_per_second{};
  std::optional<studies::Interval> interval{};  // 95 % of the mean samples per second
  std::optional<double> joules_per_sample{};    // median; nothing if a run has none
  // Against the mode's base; empty if that has no good run. Seconds per step.
  struct Loss {
    Spread efficiency{};  // of each run against the base's median
    // 95 % of its mean, each run against the base's run of the same repeat; none for the base.
    std::optional<studies::Interval> interval{};
    double ideal = 0, gap = 0;
    std::array<double, loss_count> parts{};  // add up to the gap
  };
  std::optional<Loss> loss{};
};

// Rates of work, and their shares of the peak of parallel.hardware, if that is known.
struct Utilisation {
  // FLOP/s per rank: 6 N, with attention, and with recomputation.
  double six_n = 0, model = 0, hardware = 0;
  std::optional<double> mfu{}, hfu{};  // model and hardware against the peak
};
[[nodiscard]] Utilisation utilisation_of(const Row& row);

[[nodiscard]] std::vector<Row> attribute(const std::vector<PointResult>& points);

// The planner's predictions, corrected by the measured points.
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
