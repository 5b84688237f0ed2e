// SPDX-License-Identifier: Apache-2.0
// Compares variants with the base, per seed, at equal steps, items or time, and decides which
// continue after a rung of successive halving. Pure functions.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/study/ablate/runner.h"
#include "launch/study/statistics.h"

namespace trireme::ablate {

// Over the seeds for which both the variant and the base have a value.
struct Difference {
  std::vector<double> by_seed{};  // variant minus base; below 0: better
  double mean = 0;
  std::optional<studies::Interval> interval{};  // of the mean, 95 %, of this difference alone
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
  std::optional<studies::Interval> interval{};  // of the metric's mean
  // By Axis, at the largest amount that both cells of a seed reached. Empty for the base.
  std::array<std::optional<Difference>, 3> differences{};
};

// The base first, then by mean difference at equal steps; those without one last.
[[nodiscard]] std::vector<Row> compare(const Study& study, const AblationResult& result);

// "validation loss of the last evaluation", "mean training loss of the last 20 steps".
[[nodiscard]] std::string metric_text(const Study& study);

// A variant at a rung: per seed, its metric minus the base's; nothing for a failed seed.
struct Standing {
  std::size_t variant = 0;
  std::vector<std::optional<double>> differences{};
};

struct Judgement {
  std::vector<std::size_t> stopped{};  // variants
  std::string text{};                  // "after step 100: a (-0.1), b (+0.2) go on; c stopped"
};

// Keeps the fraction Halving::keep of `standings` (without the base, which always continues) with
// the least mean difference, at least one; ties: the earlier. A variant without any numeric
// difference is stopped.
[[nodiscard]] Judgement judge(const Study& study, std::int64_t step,
                              std::span<const Standing> standings);

}  // namespace trireme::ablate
