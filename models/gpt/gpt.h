// SPDX-License-Identifier: Apache-2.0
// GPT-2 (Radford et al., 2019): learned positions, pre-layer-norm blocks, tanh GELU, output head
// tied to the token table, vocabulary padded to a multiple of 64. Initialisation as published:
// deviation 0.02, residual projections scaled by 1/sqrt(2 layers), positions 0.01.
#pragma once

#include "runtime/nn/model.h"

namespace trireme {

struct GptOptions {
  std::int64_t layers = 12;
  std::int64_t hidden = 768;
  std::int64_t heads = 12;
  std::int64_t context = 1024;
  std::int64_t vocabulary = 50257;
  float init_deviation = 0.02F;
  bool sinusoidal_positions =
      false;             // how the learned positions start: sine waves, or the published normal
  float dropout = 0.0F;  // on the embedding and on both residual branches
};

// Inputs (micro_batch, context) i32 tokens; targets the same shape.
[[nodiscard]] Chain gpt_chain(const GptOptions& options);

}  // namespace trireme
