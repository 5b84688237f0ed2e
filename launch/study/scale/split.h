// SPDX-License-Identifier: Apache-2.0
// Scaling efficiency of a study's points and what it is lost to.
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
#include <string_view>
#include <vector>

#include "launch/study/scale/interval.h"
#include "launch/study/scale/runner.h"

namespace trireme::scale {

inline constexpr int loss_count = 5;
inline constexpr std::array<std::string_view, loss_count> loss_names = {
    "exposed_comm", "bubble", "data_wait", "straggler", "compute_slowdown"};
inline constexpr std::array<std::string_view, loss_count> loss_titles = {
    "exposed communication", "pipeline bubble", "data wait", "straggler", "compute slowdown"};

struct Spread {
  double median = 0, min = 0, max = 0;
};

struct Row {
  Point point;
  std::vector<std::optional<RunResult>> runs;
  int good = 0;  // runs that ended well; 0: there is nothing below
  // Of the run whose step time is the median; of an even number of runs the means of the middle
  // two. Either way the parts add up.
  Times parts{};
  double steps = 1;      // that the parts are the sum of: to a fixed loss more than one
  int slowest_rank = 0;  // of the slower of these
  RunPlace place{};
  Spread samples_per_second{};
  std::optional<Interval> interval{};         // 95 % of the mean samples per second
  std::optional<double> joules_per_sample{};  // the median of the runs; nothing where one has none
  // Of the mode's base; empty where that has no good run. Seconds per step.
  struct Loss {
    Spread efficiency{};  // of each run against the base's median
    // 95 % of its mean, each run against the base's of the same repeat; not of the base itself.
    std::optional<Interval> interval{};
    double ideal = 0, gap = 0;
    std::array<double, loss_count> parts{};  // add up to the gap
  };
  std::optional<Loss> loss{};
};

// By both usual counts, of the peak of parallel.hardware; nothing where that is not known.
struct Utilisation {
  // Per second and rank: 6 N, with attention, and with what is computed again.
  double six_n = 0, model = 0, hardware = 0;
  std::optional<double> mfu{}, hfu{};  // model and hardware against the peak
};
[[nodiscard]] Utilisation utilisation_of(const Row& row);

[[nodiscard]] std::vector<Row> attribute(const std::vector<PointResult>& points);

}  // namespace trireme::scale
