// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/cluster.h"

#include <cmath>
#include <numbers>

namespace trireme::plan {

double normal_quantile(double probability) {
  double low = -40, high = 40;
  for (int i = 0; i < 80; ++i) {
    const double middle = (low + high) / 2;
    const double below = 0.5 * std::erfc(-middle / std::numbers::sqrt2);
    (below < probability ? low : high) = middle;
  }
  return (low + high) / 2;
}

double expected_largest(double count) {
  return count > 1 ? normal_quantile((count - 0.375) / (count + 0.25)) : 0;
}

}  // namespace trireme::plan
