// SPDX-License-Identifier: Apache-2.0
#include "launch/bench/comm/measure.h"
#include "runtime/base/error.h"

namespace trireme::comm_bench {

// Minimises sum(((a + b x) / t - 1)^2): the normal equations of ordinary least squares with weights
// 1 / t^2.
LinkFit fit_link(std::span<const TimedBytes> times) {
  TRIREME_EXPECTS(!times.empty(), "no times");
  constexpr double one_size = 1e-12;  // relative spread below which all sizes are equal
  double w = 0, wx = 0, wxx = 0, wt = 0, wxt = 0;
  for (const auto& [x, t] : times) {
    const double weight = 1 / (t * t);
    w += weight;
    wx += weight * x;
    wxx += weight * x * x;
    wt += weight * t;
    wxt += weight * x * t;
  }
  const double determinant = w * wxx - wx * wx;
  double slope = determinant > one_size * w * wxx ? (w * wxt - wx * wt) / determinant : 0;
  double latency = (wt - slope * wx) / w;
  if (latency < 0) {
    latency = 0;
    slope = wxt / wxx;
  }
  if (slope <= 0) return {.latency = wt / w};
  return {.latency = latency, .bandwidth = 1 / slope};
}

}  // namespace trireme::comm_bench
