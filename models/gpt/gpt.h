// SPDX-License-Identifier: Apache-2.0
// GPT-2 (Radford et al., 2019): learned positions, pre-layer-norm blocks, GELU, output head
// tied to the token table, vocabulary padded to a multiple of 64. Initialisation as published:
// standard deviation 0.02, residual projections scaled by 1/sqrt(2 layers), positions 0.01.
#pragma once

#include "models/transformer/activation_names.h"
#include "models/transformer/transformer.h"
#include "runtime/config/key_table.h"

namespace trireme {

namespace hugging_face {
struct Exchange;
[[nodiscard]] const Exchange& gpt2_exchange();
}  // namespace hugging_face

inline constexpr std::string_view gpt2_name = "gpt2";

// The keys of the model section for family gpt2; transformer/keys.h documents them.
struct GptOptions {
  std::int64_t layers = 4;
  std::int64_t hidden = 256;
  std::int64_t heads = 4;
  std::int64_t context = 256;
  std::int64_t vocabulary = 256;
  double dropout = 0;  // on the embedding and on both residual branches
  double init_std = 0.02;
  ops::ActivationKind activation = ops::ActivationKind::gelu_tanh;
  PositionInit position_init = PositionInit::normal;
  std::int64_t mup_base_width = 0;  // 0: the standard parametrisation
  friend bool operator==(const GptOptions&, const GptOptions&) = default;
};

[[nodiscard]] TransformerOptions transformer_options(const GptOptions& options);
[[nodiscard]] inline Chain gpt_chain(const GptOptions& options) {
  return transformer_chain(transformer_options(options));
}

[[nodiscard]] config::ModelFamily gpt2_family();

}  // namespace trireme
