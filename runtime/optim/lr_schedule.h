// SPDX-License-Identifier: Apache-2.0
// Learning rate as a pure function of the step.
#pragma once

#include <cstdint>

#include "runtime/config/choices.h"

namespace trireme {

struct LrSchedule {
  LrDecay kind = LrDecay::constant;
  double peak = 1e-3;
  std::int64_t steps = 1000;
  std::int64_t warmup_steps = 0;
  double minimum_ratio = 0.0;   // final rate / peak
  double decay_fraction = 0.2;  // wsd: fraction of `steps` that decays

  // step counts from 0. Warm-up is linear and starts above zero: peak * (step + 1) / warmup_steps.
  // The last step, steps - 1, has peak * minimum_ratio.
  [[nodiscard]] double at(std::int64_t step) const;
};

}  // namespace trireme
