// SPDX-License-Identifier: Apache-2.0
#include "launch/ablate/paired_test.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

namespace trireme::ablate {
namespace {

double standard_error(std::span<const double> values) {
  const double mean = scale::mean_of(values);
  double squares = 0;
  for (const double value : values)
    squares += (value - mean) * (value - mean);
  const auto count = static_cast<double>(values.size());
  return std::sqrt(squares / (count - 1) / count);
}

int freedom_of(std::span<const double> values) {
  return static_cast<int>(values.size()) - 1;
}

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

std::optional<scale::Interval> mean_interval(std::span<const double> values, double level) {
  if (values.size() < 2) return {};
  const double half = t_limit(1 - level, freedom_of(values)) * standard_error(values);
  const double mean = scale::mean_of(values);
  return scale::Interval{.low = mean - half, .high = mean + half};
}

std::optional<double> paired_p(std::span<const double> differences) {
  if (differences.size() < 2) return {};
  const double mean = scale::mean_of(differences);
  if (mean == 0) return 1;
  return t_probability(mean / standard_error(differences), freedom_of(differences));
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

}  // namespace trireme::ablate
