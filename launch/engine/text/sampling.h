// SPDX-License-Identifier: Apache-2.0
// Draws a token from a model's logits.
#pragma once

#include <cstdint>
#include <span>

namespace trireme {

struct SamplingOptions {
  double temperature = 0.8;  // 0: the likeliest token
  std::int64_t top_k = 0;    // of so many likeliest tokens; 0: all
  double top_p = 1;          // of the likeliest that together have this probability
  std::uint64_t seed = 1234;
};

inline constexpr std::int32_t not_finite = -1;  // instead of a token

// `position`: how many tokens the text has. The same seed, position and logits give the same token;
// of equally likely ones the lowest comes first. not_finite where a logit is not.
[[nodiscard]] std::int32_t draw_token(std::span<const float> logits, const SamplingOptions& options,
                                      std::uint64_t position);

}  // namespace trireme
