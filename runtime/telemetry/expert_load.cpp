// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/expert_load.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace trireme {

ExpertLoad load_of(std::string layer, std::span<const float> counts, std::int64_t slots) {
  ExpertLoad load{.layer = std::move(layer), .experts = std::ssize(counts), .slots = slots};
  double most = 0, all = 0;
  for (const float count : counts) {
    all += static_cast<double>(count);
    most = std::max(most, static_cast<double>(count));
    load.dead += count == 0 ? 1 : 0;
  }
  load.tokens = all / static_cast<double>(slots);
  if (all <= 0) return load;  // no step yet
  const auto experts = static_cast<double>(load.experts);
  load.max_over_mean = most * experts / all;
  if (load.experts < 2) return load;
  double sum = 0;
  for (const float count : counts) {
    const double share = static_cast<double>(count) / all;
    if (share > 0) sum -= share * std::log(share);
  }
  load.entropy = sum / std::log(experts);
  return load;
}

const ExpertLoad& worst_of(std::span<const ExpertLoad> loads) {
  return *std::ranges::max_element(loads, {}, &ExpertLoad::max_over_mean);
}

}  // namespace trireme
