// SPDX-License-Identifier: Apache-2.0
#include "models/llama/llama.h"

#include "models/transformer/head_rules.h"

namespace trireme {
namespace {

double high_turns(const LlamaOptions& options) {
  if (options.rope_high_turns > 0) return options.rope_high_turns;
  return options.rope_scaling == ops::RopeScaling::yarn ? 32 : 4;  // as published
}

}  // namespace

TransformerOptions transformer_options(const LlamaOptions& o) {
  return {.layers = o.layers,
          .hidden = o.hidden,
          .heads = o.heads,
          .kv_heads = o.kv_heads > 0 ? o.kv_heads : o.heads,
          .head_size = o.head_size > 0 ? o.head_size : o.hidden / o.heads,
          .intermediate = o.intermediate > 0 ? o.intermediate : balanced_intermediate(o.hidden),
          .context = o.context,
          .vocabulary = o.vocabulary,
          .dropout = o.dropout,
          .norm = {.kind = NormKind::rms, .epsilon = o.norm_epsilon},
          .activation = ops::ActivationKind::silu,
          .gated_mlp = true,
          .biases = o.qkv_bias ? Biases::qkv : Biases::none,
          .qk_norm = o.qk_norm,
          .window = o.window,
          .soft_cap = o.attention_soft_cap,
          .rotary = true,
          .rope = {.base = o.rope_theta,
                   .scaling = o.rope_scaling,
                   .factor = o.rope_factor,
                   .low_turns = o.rope_low_turns,
                   .high_turns = high_turns(o),
                   .original_context = o.rope_original_context},
          .tied_head = o.tied_head,
          .init_std = o.init_std,
          .width = width_over(o.hidden, o.mup_base_width)};
}

}  // namespace trireme
