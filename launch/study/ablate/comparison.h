// SPDX-License-Identifier: Apache-2.0
// Compares variants with the base, per seed, at equal steps, items or time. Pure functions of a
// result.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "launch/study/ablate/runner.h"
#include "launch/study/scale/interval.h"

namespace trireme::ablate {

// Over the seeds for which both the variant and the base have a value.
struct Difference {
  std::vector<double> by_seed{};  // variant minus base; below 0: better
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
  // Means over these seeds, each at its cell's end.
  double metric = 0, steps = 0, items = 0, seconds = 0, rank_hours = 0;
  std::optional<scale::Interval> interval{};  // of the metric's mean
  // By Axis, at the largest amount that both cells of a seed reached. Empty for the base.
  std::array<std::optional<Difference>, 3> differences{};
};

// The base first, then by mean difference at equal steps; those without one last.
[[nodiscard]] std::vector<Row> compare(const Study& study, const AblationResult& result);

// "validation loss of the last evaluation", "mean training loss of the last 20 steps".
[[nodiscard]] std::string metric_text(const Study& study);

}  // namespace trireme::ablate
