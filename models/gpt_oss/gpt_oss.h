// SPDX-License-Identifier: Apache-2.0
// gpt-oss (OpenAI, 2025): rotary positions stretched by YaRN, RMS norm, grouped queries with sinks,
// windowed attention, except that every N-th layer attends to all tokens, biases, and in each layer
// experts with a clamped SwiGLU. Vocabulary padded to a multiple of 64. Initialisation as for
// gpt/gpt.h.
#pragma once

#include "models/transformer/transformer.h"
#include "runtime/config/key_table.h"

namespace trireme {

namespace hugging_face {
struct Exchange;
[[nodiscard]] const Exchange& gpt_oss_exchange();  // GptOssForCausalLM
}  // namespace hugging_face

inline constexpr std::string_view gpt_oss_name = "gpt_oss";

// Keys of the model section for family gpt_oss, documented in gpt_oss.cpp. 0 means "auto" or
// "none".
struct GptOssOptions {
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
  std::int64_t window = 0;
  std::int64_t global_every = 6;
  double rope_theta = 10000;
  double rope_factor = 1;
  std::int64_t rope_original_context = 0;
  std::int64_t experts = 0;
  std::int64_t experts_per_token = 2;
  bool router_balanced = false;
  double balance_loss = 0;
  double sequence_balance_loss = 0;
  double router_z_loss = 0;
  friend bool operator==(const GptOssOptions&, const GptOssOptions&) = default;
};

// Resolves every "auto".
[[nodiscard]] TransformerOptions transformer_options(const GptOssOptions& options);

[[nodiscard]] config::ModelFamily gpt_oss_family();

}  // namespace trireme
