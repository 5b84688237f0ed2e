// SPDX-License-Identifier: Apache-2.0
// Statistics of few runs: Student's t (1908), exact for normal values from two runs on. A
// percentile bootstrap of three is far too narrow. Tests of paired differences are corrected for
// their number (Holm, 1979). Pure functions.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trireme::studies {

struct Interval {
  double low = 0, high = 0;
};

[[nodiscard]] double mean_of(std::span<const double> values);
[[nodiscard]] double median_of(std::span<const double> values);
// Standard error of the mean; needs at least two values.
[[nodiscard]] double standard_error(std::span<const double> values);

// The probability that t of `freedom` >= 1 degrees of freedom is at least as far from 0 as `t`.
[[nodiscard]] double t_probability(double t, int freedom);

// Contains the mean with probability `level`; nothing for fewer than two values.
[[nodiscard]] std::optional<Interval> mean_interval(std::span<const double> values,
                                                    double level = 0.95);

// "[97.1, 99.3]": the interval times `factor`; empty if none.
[[nodiscard]] std::string interval_text(const std::optional<Interval>& interval, double factor,
                                        int digits);

// Two-sided p-value of paired differences: the null hypothesis is a mean of 0. Nothing for fewer
// than two.
[[nodiscard]] std::optional<double> paired_p(std::span<const double> differences);
// Holm's correction: with threshold 0.05, the probability of any false positive in the family is at
// most 5 %, however the tests depend on each other. Planned tests without a value count too, as p =
// 1.
[[nodiscard]] std::vector<double> holm(std::span<const std::optional<double>> p);

}  // namespace trireme::studies
