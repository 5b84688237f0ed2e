// SPDX-License-Identifier: Apache-2.0
// Llama (Touvron et al., 2023) and its relatives Qwen 2 and 3, Mistral, Phi-3, SmolLM3 and OLMo 2,
// dense or with experts (Mixtral, Qwen3-MoE). Rotary positions, RMS norm, SwiGLU, grouped-query
// attention; biases and normalised heads where a model has them. Vocabulary padded to a multiple
// of 64. Initialisation as for gpt/gpt.h.
#pragma once

#include "models/transformer/transformer.h"
#include "runtime/config/choices.h"
#include "runtime/config/key_table.h"

namespace trireme {

namespace hugging_face {
struct Exchange;
[[nodiscard]] const Exchange& llama_exchange();
}  // namespace hugging_face

inline constexpr std::string_view llama_name = "llama";

namespace ops {
[[nodiscard]] constexpr auto names_of(RopeScaling /*key*/) {
  return std::to_array<Named<RopeScaling>>({{RopeScaling::none, "none"},
                                            {RopeScaling::linear, "linear"},
                                            {RopeScaling::llama3, "llama3"},
                                            {RopeScaling::yarn, "yarn"}});
}
}  // namespace ops

// Keys of the model section for family llama; documented in llama.cpp. 0 means "auto" or "off".
struct LlamaOptions {
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
  bool tied_head = false;
  double norm_epsilon = 1e-5;
  bool qkv_bias = false;
  bool attention_bias = false;
  bool qk_norm = false;
  bool qk_norm_whole = false;
  bool norm_after = false;
  std::int64_t window = 0;
  double attention_soft_cap = 0;
  double rope_theta = 10000;
  std::int64_t unrotated_every = 0;
  ops::RopeScaling rope_scaling = ops::RopeScaling::none;
  double rope_factor = 1;
  std::int64_t rope_original_context = 0;
  double rope_low_freq_factor = 1;
  double rope_high_freq_factor = 0;
  std::int64_t mup_base_width = 0;
  std::int64_t experts = 0;
  std::int64_t experts_per_token = 2;
  std::int64_t expert_intermediate = 0;
  std::int64_t shared_intermediate = 0;
  std::int64_t experts_every = 1;
  std::vector<std::int64_t> dense_layers{};
  ops::RouterScore router = ops::RouterScore::softmax;
  bool router_renormalize = true;
  double router_scale = 1;
  std::int64_t router_groups = 1;
  std::int64_t router_groups_kept = 1;
  bool router_balanced = false;
  double balance_loss = 0;
  double sequence_balance_loss = 0;
  double router_z_loss = 0;
  double balance_rate = 0;
  HeadKind head = HeadKind::automatic;
  std::int64_t classes = 1000;
  std::int64_t targets = 4;
  std::int64_t pad_token = 0;
  friend bool operator==(const LlamaOptions&, const LlamaOptions&) = default;
};

// Resolves every "auto".
[[nodiscard]] TransformerOptions transformer_options(const LlamaOptions& options);
[[nodiscard]] inline Chain llama_chain(const LlamaOptions& options) {
  return transformer_chain(transformer_options(options));
}

[[nodiscard]] config::ModelFamily llama_family();

}  // namespace trireme
