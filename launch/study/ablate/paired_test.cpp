// SPDX-License-Identifier: Apache-2.0
#include "launch/study/ablate/paired_test.h"

#include <algorithm>
#include <numeric>

#include "launch/study/scale/interval.h"

namespace trireme::ablate {
std::optional<double> paired_p(std::span<const double> differences) {
  if (differences.size() < 2) return {};
  const double mean = scale::mean_of(differences);
  if (mean == 0) return 1;
  return scale::t_probability(mean / scale::standard_error(differences),
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

}  // namespace trireme::ablate
