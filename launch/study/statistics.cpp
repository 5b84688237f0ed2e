// SPDX-License-Identifier: Apache-2.0
#include "launch/study/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace trireme::studies {
namespace {

// The t that is passed on either side with probability `p`.
double t_limit(double p, int freedom) {
  double low = 0, high = 1;
  while (t_probability(high, freedom) > p)
    high *= 2;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (t_probability(middle, freedom) > p ? low : high) = middle;
  }
  return high;
}

}  // namespace

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double median_of(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  return (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
}

double standard_error(std::span<const double> values) {
  const double mean = mean_of(values);
  double squares = 0;
  for (const double value : values)
    squares += (value - mean) * (value - mean);
  const auto count = static_cast<double>(values.size());
  return std::sqrt(squares / (count - 1) / count);
}

// Abramowitz and Stegun, 26.7.3 and 26.7.4: with the angle whose tangent is t / sqrt(freedom), a
// finite sum of powers of its cosine.
double t_probability(double t, int freedom) {
  const double angle = std::atan(std::abs(t) / std::sqrt(static_cast<double>(freedom)));
  const double cosine = std::cos(angle);
  const bool odd = freedom % 2 == 1;
  double term = odd ? cosine : 1, sum = 0;
  for (int power = odd ? 1 : 0; power <= freedom - 2; power += 2) {
    sum += term;
    term *= cosine * cosine * (power + 1) / (power + 2);
  }
  const double inside =
      odd ? 2 / std::numbers::pi * (angle + std::sin(angle) * sum) : std::sin(angle) * sum;
  return std::clamp(1 - inside, 0.0, 1.0);
}

std::optional<Interval> mean_interval(std::span<const double> values, double level) {
  if (values.size() < 2) return {};
  const auto freedom = static_cast<int>(values.size()) - 1;
  const double half = t_limit(1 - level, freedom) * standard_error(values);
  const double mean = mean_of(values);
  return Interval{.low = mean - half, .high = mean + half};
}

std::string interval_text(const std::optional<Interval>& interval, double factor, int digits) {
  if (!interval) return {};
  return fmt::format("[{:.{}f}, {:.{}f}]", interval->low * factor, digits, interval->high * factor,
                     digits);
}

std::optional<double> paired_p(std::span<const double> differences) {
  if (differences.size() < 2) return {};
  const double mean = mean_of(differences);
  if (mean == 0) return 1;
  return t_probability(mean / standard_error(differences),
                       static_cast<int>(differences.size()) - 1);
}

std::vector<double> holm(std::span<const std::optional<double>> p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return p[i].value_or(1); });
  std::vector<double> corrected(p.size());
  double largest = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const double factor = static_cast<double>(order.size() - i);
    largest = std::max(largest, std::min(1.0, factor * p[order[i]].value_or(1)));
    corrected[order[i]] = largest;
  }
  return corrected;
}

}  // namespace trireme::studies
