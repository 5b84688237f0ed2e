// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/expert_load.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace trireme {

ExpertLoad load_of(std::string layer, std::span<const float> counts) {
  ExpertLoad load{.layer = std::move(layer), .experts = std::ssize(counts)};
  double most = 0;
  for (const float count : counts) {
    load.tokens += static_cast<double>(count);
    most = std::max(most, static_cast<double>(count));
    load.dead += count == 0 ? 1 : 0;
  }
  if (load.tokens <= 0) return load;  // no step yet
  const auto experts = static_cast<double>(load.experts);
  load.max_over_mean = most * experts / load.tokens;
  if (load.experts < 2) return load;
  double sum = 0;
  for (const float count : counts) {
    const double share = static_cast<double>(count) / load.tokens;
    if (share > 0) sum -= share * std::log(share);
  }
  load.entropy = sum / std::log(experts);
  return load;
}

const ExpertLoad& worst_of(std::span<const ExpertLoad> loads) {
  return *std::ranges::max_element(loads, {}, &ExpertLoad::max_over_mean);
}

}  // namespace trireme
