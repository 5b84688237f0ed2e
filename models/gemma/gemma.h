// SPDX-License-Identifier: Apache-2.0
// The text models of Gemma 3 (Gemma Team, 2025): RMS norms with scale offset 1 before and after
// both branches, normalised heads, a gated MLP with tanh GELU, a scaled embedding tied to the head,
// and windowed attention, except that every N-th layer attends to all tokens with another rotary
// base. Vocabulary padded to a multiple of 64. Initialisation as for gpt/gpt.h.
#pragma once

#include "models/transformer/transformer.h"
#include "runtime/config/key_table.h"

namespace trireme {

namespace hugging_face {
struct Exchange;
[[nodiscard]] const Exchange& gemma_exchange();  // Gemma3ForCausalLM
}  // namespace hugging_face

inline constexpr std::string_view gemma_name = "gemma3";

// Keys of the model section for family gemma3, documented in gemma.cpp. 0 means "auto" or "none".
struct GemmaOptions {
  std::int64_t layers = 4;
  std::int64_t hidden = 256;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 0;
  std::int64_t head_size = 0;
  std::int64_t intermediate = 0;
  std::int64_t context = 256;
  std::int64_t vocabulary = 256;
  double dropout = 0;
  double init_std = 0.02;
  double norm_epsilon = 1e-5;
  double query_pre_attn_scalar = 0;
  std::int64_t window = 0;
  std::int64_t global_every = 6;
  double rope_local_theta = 10000;
  double rope_theta = 10000;
  double rope_factor = 1;
  friend bool operator==(const GemmaOptions&, const GemmaOptions&) = default;
};

// Resolves every "auto".
[[nodiscard]] TransformerOptions transformer_options(const GemmaOptions& options);

[[nodiscard]] config::ModelFamily gemma_family();

}  // namespace trireme
