// SPDX-License-Identifier: Apache-2.0
// Learning rate as a pure function of the step.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/config/lr_factors.h"

namespace trireme {

struct LrSchedule {
  LrDecay kind = LrDecay::constant;
  double peak = 1e-3;
  std::int64_t steps = 1000;
  std::int64_t warmup_steps = 0;
  double minimum_ratio = 0.0;       // final rate / peak
  double decay_fraction = 0.2;      // wsd: fraction of `steps` that decays
  double power = 1;                 // polynomial
  std::vector<LrFactor> factors{};  // multistep: steps ascend

  // step counts from 0. Warm-up is linear and starts above zero: peak * (step + 1) / warmup_steps.
  // A kind that falls to an end has peak * minimum_ratio in the last step, steps - 1.
  [[nodiscard]] double at(std::int64_t step) const;
};

// That of a checked config.
[[nodiscard]] LrSchedule lr_schedule(const Config& config);

}  // namespace trireme
