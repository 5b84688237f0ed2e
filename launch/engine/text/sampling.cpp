// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/text/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "runtime/base/philox.h"

namespace trireme {
namespace {

// The `count` most likely tokens, most likely first.
std::vector<std::int32_t> likeliest(std::span<const float> logits, std::size_t count) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(std::min(count, order.size()));
  std::partial_sort(order.begin(), end, order.end(), [&](std::int32_t a, std::int32_t b) {
    const float left = logits[static_cast<std::size_t>(a)];
    const float right = logits[static_cast<std::size_t>(b)];
    return left > right || (left == right && a < b);
  });
  order.erase(end, order.end());
  return order;
}

// How many of the descending weights have this total share; at least one.
std::size_t nucleus(std::span<const double> weights, double share) {
  const double wanted = share * std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  std::size_t count = 0;
  while (count < weights.size() && (count == 0 || sum < wanted))
    sum += weights[count++];
  return count;
}

}  // namespace

std::int32_t draw_token(std::span<const float> logits, const SamplingOptions& options,
                        std::uint64_t position) {
  if (!std::ranges::all_of(logits, [](float value) { return std::isfinite(value); }))
    return not_finite;
  if (options.temperature == 0)
    return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
  const auto order = likeliest(
      logits, options.top_k > 0 ? static_cast<std::size_t>(options.top_k) : logits.size());
  const double top = static_cast<double>(logits[static_cast<std::size_t>(order.front())]);
  std::vector<double> weights(order.size());
  std::ranges::transform(order, weights.begin(), [&](std::int32_t token) {
    return std::exp((static_cast<double>(logits[static_cast<std::size_t>(token)]) - top) /
                    options.temperature);
  });
  if (options.top_p < 1) weights.resize(nucleus(weights, options.top_p));
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  const auto words = Philox::keyed(options.seed, RandomPurpose::sample)(0, position);
  double left = static_cast<double>(Philox::uniform(words[0])) * total;
  for (std::size_t i = 0; i + 1 < weights.size(); ++i) {
    left -= weights[i];
    if (left < 0) return order[i];
  }
  return order[weights.size() - 1];
}

}  // namespace trireme
