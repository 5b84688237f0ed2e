// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trireme {

double LrSchedule::at(std::int64_t step) const {
  if (step < warmup_steps)
    return peak * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  const auto decay_steps =
      static_cast<std::int64_t>(std::llround(decay_fraction * static_cast<double>(steps)));
  const std::int64_t start =
      kind == LrDecay::wsd ? std::max(warmup_steps, steps - decay_steps) : warmup_steps;
  const double span = static_cast<double>(std::max<std::int64_t>(steps - 1 - start, 1));
  const double progress = std::clamp(static_cast<double>(step - start) / span, 0.0, 1.0);
  const double fall = 1.0 - minimum_ratio;
  switch (kind) {
    case LrDecay::constant:
      return peak;
    case LrDecay::cosine:
      return peak * (minimum_ratio + fall * 0.5 * (1.0 + std::cos(std::numbers::pi * progress)));
    case LrDecay::linear:
    case LrDecay::wsd:
      return peak * (1.0 - fall * progress);
  }
  return peak;
}

}  // namespace trireme
