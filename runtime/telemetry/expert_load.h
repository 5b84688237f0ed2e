// SPDX-License-Identifier: Apache-2.0
// How evenly a layer's router spreads tokens over its experts.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace trireme {

// Of one layer in one step, over the global batch.
struct ExpertLoad {
  std::string layer{};
  double max_over_mean = 1;  // tokens of the fullest expert by the mean: 1 to experts / slots
  std::int64_t dead = 0;     // experts without a token
  double entropy = 1;        // of the shares of tokens, by the log of the number of experts: 0 to 1
  double tokens = 0;         // without padding
  std::int64_t experts = 0, slots = 1;  // slots: experts of each token
};

// `counts`: tokens per expert, exact integers, with each token `slots` times.
[[nodiscard]] ExpertLoad load_of(std::string layer, std::span<const float> counts,
                                 std::int64_t slots = 1);
// The layer with the highest max_over_mean; `loads` is not empty.
[[nodiscard]] const ExpertLoad& worst_of(std::span<const ExpertLoad> loads);

}  // namespace trireme
