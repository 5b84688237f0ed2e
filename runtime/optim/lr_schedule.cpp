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
  std::int64_t start = warmup_steps;
  if (kind == LrDecay::wsd)  // at the latest a step before the last, which has the minimum
    start = std::min(std::max(start, steps - decay_steps), std::max<std::int64_t>(steps - 2, 0));
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
    case LrDecay::polynomial:
      return peak * (minimum_ratio + fall * std::pow(1.0 - progress, power));
    case LrDecay::exponential:
      return peak * std::pow(minimum_ratio, progress);
    case LrDecay::inverse_sqrt: {
      const double warm = static_cast<double>(std::max<std::int64_t>(warmup_steps, 1));
      return peak * std::max(minimum_ratio, std::sqrt(warm / static_cast<double>(step + 1)));
    }
    case LrDecay::multistep: {
      const auto after = std::ranges::upper_bound(factors, step, {}, &LrFactor::step);
      return after == factors.begin() ? peak : peak * std::prev(after)->factor;
    }
  }
  return peak;
}

LrSchedule lr_schedule(const Config& config) {
  const LrScheduleConfig& schedule = config.lr_schedule;
  std::string problem;
  return {.kind = schedule.name,
          .peak = config.optimizer.learning_rate,
          .steps = config.train.steps,
          .warmup_steps = schedule.warmup_steps,
          .minimum_ratio = schedule.minimum_ratio,
          .decay_fraction = schedule.decay_fraction,
          .power = schedule.power,
          .factors = lr_factors(schedule.factors, problem)};
}

}  // namespace trireme
