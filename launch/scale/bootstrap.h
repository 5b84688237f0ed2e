// SPDX-License-Identifier: Apache-2.0
// Confidence intervals by resampling (Efron, 1979), the percentile method. Pure functions: the same
// values give the same interval.
#pragma once

#include <functional>
#include <optional>
#include <span>

namespace trireme::scale {

struct Interval {
  double low = 0, high = 0;
};

[[nodiscard]] double mean_of(std::span<const double> values);
[[nodiscard]] double median_of(std::span<const double> values);

// Between which the middle `level` of the statistic of 10,000 resamples of `values` lies. Nothing
// of fewer than two values, of which nothing can be said. Of few values it is too narrow: three of
// them cannot show how far a fourth may lie.
[[nodiscard]] std::optional<Interval> bootstrap(
    std::span<const double> values, const std::function<double(std::span<const double>)>& statistic,
    double level = 0.95);

// The same of the statistic of `values` over that of `base`, which are resampled apart.
[[nodiscard]] std::optional<Interval> bootstrap_ratio(
    std::span<const double> values, std::span<const double> base,
    const std::function<double(std::span<const double>)>& statistic, double level = 0.95);

}  // namespace trireme::scale
