// SPDX-License-Identifier: Apache-2.0
// Draws a token from a model's logits.
#pragma once

#include <cstdint>
#include <span>

namespace trireme {

struct SamplingOptions {
  double temperature = 0.8;  // 0: the most likely token
  std::int64_t top_k = 0;    // sample from the k most likely tokens; 0: all
  double top_p = 1;          // sample from the most likely tokens with this total probability
  std::uint64_t seed = 1234;
};

inline constexpr std::int32_t not_finite = -1;  // instead of a token

// `position`: number of tokens in the text. Equal seed, position and logits give the same token;
// ties go to the lowest id. Returns not_finite if a logit is not finite.
[[nodiscard]] std::int32_t draw_token(std::span<const float> logits, const SamplingOptions& options,
                                      std::uint64_t position);

}  // namespace trireme
