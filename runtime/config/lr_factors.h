// SPDX-License-Identifier: Apache-2.0
// Steps of shares of a run, and lr_schedule.factors: a learning rate that changes at given steps.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/config/choices.h"

namespace trireme {

// From this step (from 0) on the rate is `factor` times its peak.
struct LrFactor {
  std::int64_t step = 0;
  double factor = 1;
};

// Steps of a product: 0.07 x 100, in floating point a little more than 7, are 7.
[[nodiscard]] std::int64_t rounded_up(double steps);

// Parses "STEP:FACTOR" texts; writes an error to `problem`.
[[nodiscard]] std::vector<LrFactor> lr_factors(std::span<const std::string> texts,
                                               std::string& problem);

}  // namespace trireme
