// SPDX-License-Identifier: Apache-2.0
// What a few seeds can show: Student's t (1908), corrected for the number of tests (Holm, 1979).
// Pure functions. A percentile bootstrap finds a difference in a quarter of the cases without one
// where there are three seeds; t is exact for normal differences from two seeds on.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "launch/scale/bootstrap.h"

namespace trireme::ablate {

// The probability that t of `freedom` >= 1 degrees of freedom is at least as far from 0 as `t`.
[[nodiscard]] double t_probability(double t, int freedom);

// That holds the mean with probability `level`; nothing of fewer than two values.
[[nodiscard]] std::optional<scale::Interval> mean_interval(std::span<const double> values,
                                                           double level = 0.95);

// Of paired differences: how probable a mean as far from 0 is where there is no effect.
[[nodiscard]] std::optional<double> paired_p(std::span<const double> differences);

// Holm's correction: who calls those at most 0.05 an effect finds one where there is none in at
// most 5 of 100 families of tests, however the tests depend on each other. Tests that were planned
// and gave no value count too, as p = 1.
[[nodiscard]] std::vector<double> holm(std::span<const std::optional<double>> p);

}  // namespace trireme::ablate
