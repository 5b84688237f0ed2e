// SPDX-License-Identifier: Apache-2.0
#include "launch/scale/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace trireme::scale {
namespace {

constexpr int resamples = 10'000;

// SplitMix64 (Steele, Lea, Flood, 2014): small, and the same everywhere.
class Draws {
 public:
  // Below `count`.
  std::size_t next(std::size_t count) {
    std::uint64_t bits = state_ += 0x9e3779b97f4a7c15ULL;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ULL;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebULL;
    return static_cast<std::size_t>((bits ^ (bits >> 31)) % count);
  }

  void resample(std::span<const double> values, std::span<double> sample) {
    for (double& value : sample)
      value = values[next(values.size())];
  }

 private:
  std::uint64_t state_ = 0;
};

Interval middle(std::vector<double> statistics, double level) {
  std::ranges::sort(statistics);
  const auto at = [&](double share) {
    const double last = static_cast<double>(statistics.size() - 1);
    return statistics[static_cast<std::size_t>(std::lround(share * last))];
  };
  return {.low = at((1 - level) / 2), .high = at((1 + level) / 2)};
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

std::optional<Interval> bootstrap(std::span<const double> values,
                                  const std::function<double(std::span<const double>)>& statistic,
                                  double level) {
  if (values.size() < 2) return {};
  Draws draws;
  std::vector<double> sample(values.size()), statistics;
  statistics.reserve(resamples);
  for (int i = 0; i < resamples; ++i) {
    draws.resample(values, sample);
    statistics.push_back(statistic(sample));
  }
  return middle(std::move(statistics), level);
}

std::optional<Interval> bootstrap_ratio(
    std::span<const double> values, std::span<const double> base,
    const std::function<double(std::span<const double>)>& statistic, double level) {
  if (values.size() < 2 || base.size() < 2) return {};
  Draws draws;
  std::vector<double> sample(values.size()), base_sample(base.size()), statistics;
  statistics.reserve(resamples);
  for (int i = 0; i < resamples; ++i) {
    draws.resample(values, sample);
    draws.resample(base, base_sample);
    statistics.push_back(statistic(sample) / statistic(base_sample));
  }
  return middle(std::move(statistics), level);
}

}  // namespace trireme::scale
