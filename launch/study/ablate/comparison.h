// SPDX-License-Identifier: Apache-2.0
// Variants against the base, seed by seed: what both have at the same amount of steps, items or
// time. Pure functions of a result.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "launch/study/ablate/runner.h"
#include "launch/study/scale/interval.h"

namespace trireme::ablate {

// Of the seeds that both the variant and the base have a value of.
struct Difference {
  std::vector<double> by_seed{};  // variant less base; below 0: better
  double mean = 0;
  std::optional<scale::Interval> interval{};  // of the mean, 95 %, of this difference alone
  // Of no effect, corrected for all variants (Holm). Only where every seed has come to its end:
  // what was stopped was chosen by its values, and what failed is missing for a reason.
  std::optional<double> p{};
  // "better" or "worse" where p is at most 0.05, "open" where it is more, "" without.
  [[nodiscard]] std::string_view verdict() const;
};

struct Row {
  std::size_t variant = 0;
  CellState state = CellState::not_run;  // failed: of some seed; stopped: early
  int seeds = 0;                         // that have a value
  // Means over these seeds, at each cell's own end.
  double metric = 0, steps = 0, items = 0, seconds = 0, rank_hours = 0;
  std::optional<scale::Interval> interval{};  // of the metric's mean
  // By Axis: at the least amount of it that both cells of a seed have come to. Not of the base.
  std::array<std::optional<Difference>, 3> differences{};
};

// The base first, the others by the mean difference at equal steps, those without one last.
[[nodiscard]] std::vector<Row> compare(const Study& study, const AblationResult& result);

// "validation loss of the last evaluation", "mean training loss of the last 20 steps".
[[nodiscard]] std::string metric_text(const Study& study);

}  // namespace trireme::ablate
