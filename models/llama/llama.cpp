// SPDX-License-Identifier: Apache-2.0
#include "models/llama/llama.h"

#include "models/transformer/keys.h"
#include "runtime/config/rules/rules.h"

namespace trireme {

namespace {

double high_freq_factor(const LlamaOptions& options) {
  if (options.rope_high_freq_factor > 0) return options.rope_high_freq_factor;
  return options.rope_scaling == ops::RopeScaling::yarn ? 32 : 4;  // as published
}

}  // namespace

TransformerOptions transformer_options(const LlamaOptions& o) {
  const std::int64_t intermediate =
      o.intermediate > 0 ? o.intermediate : balanced_intermediate(o.hidden);
  return {.layers = o.layers,
          .hidden = o.hidden,
          .heads = o.heads,
          .kv_heads = o.kv_heads > 0 ? o.kv_heads : o.heads,
          .head_size = o.head_size > 0 ? o.head_size : o.hidden / o.heads,
          .intermediate = intermediate,
          .context = o.context,
          .vocabulary = o.vocabulary,
          .dropout = o.dropout,
          .norm = {.kind = NormKind::rms, .epsilon = o.norm_epsilon},
          .pre_norms = !o.norm_after,
          .branch_norms = o.norm_after,
          .head = head_choice(o),
          .activation = ops::ActivationKind::silu,
          .gated_mlp = true,
          .experts = experts_of(o, intermediate),
          .experts_every = o.experts_every,
          .dense_layers = o.dense_layers,
          .biases = o.attention_bias ? Biases::attention
                    : o.qkv_bias     ? Biases::qkv
                                     : Biases::none,
          .qk_norm = o.qk_norm,
          .qk_norm_whole = o.qk_norm_whole,
          .window = o.window,
          .soft_cap = o.attention_soft_cap,
          .rotary = true,
          .rope = {.base = o.rope_theta,
                   .scaling = o.rope_scaling,
                   .factor = o.rope_factor,
                   .low_freq_factor = o.rope_low_freq_factor,
                   .high_freq_factor = high_freq_factor(o),
                   .original_context = o.rope_original_context},
          .unrotated_every = o.unrotated_every,
          .tied_head = o.tied_head && head_choice(o).is_language(),
          .init_std = o.init_std,
          .width = width_over(o.hidden, o.mup_base_width)};
}

namespace {

using config::IntegerRange;
using config::NumberRange;

#define LLAMA_FIELD(name, ...) TRIREME_MODEL_FIELD(LlamaOptions, name, __VA_ARGS__)

std::vector<config::Field> llama_fields() {
  return head_fields<LlamaOptions>(transformer_fields<LlamaOptions>({
      LLAMA_FIELD(tied_head, config::Free{},
                  "the output projection shares the token embedding table"),
      LLAMA_FIELD(qkv_bias, config::Free{}, "biases of queries, keys and values (Qwen 2)"),
      LLAMA_FIELD(
          attention_bias, config::Free{},
          "biases of queries, keys, values and attention's output (Llama's attention_bias)"),
      LLAMA_FIELD(qk_norm, config::Free{}, "RMS norm of each head of queries and keys (Qwen 3)"),
      LLAMA_FIELD(qk_norm_whole, config::Free{},
                  "RMS norm over all heads of queries, and over all of keys (OLMo 2)"),
      LLAMA_FIELD(norm_after, config::Free{},
                  "norms of what attention and MLP add, not of their inputs (OLMo 2)"),
      LLAMA_FIELD(unrotated_every, (IntegerRange{1, 1024, {}, "none"}),
                  "every N-th layer has no rotary positions (SmolLM3: 4); none = all have"),
      LLAMA_FIELD(attention_soft_cap, (NumberRange{.low = 0, .high = 1e6}),
                  "attention scores s become cap * tanh(s / cap); 0 = off"),
      LLAMA_FIELD(rope_scaling, config::one_of<ops::RopeScaling>(),
                  "RoPE scaling for contexts longer than the pretraining context"),
      LLAMA_FIELD(
          rope_original_context, (IntegerRange{1, std::int64_t{1} << 30, {}, "none"}),
          "pretraining context (original_max_position_embeddings), for llama3 and YaRN scaling"),
      LLAMA_FIELD(rope_low_freq_factor, (NumberRange{.low = 0, .high = 1e6, .low_is_open = true}),
                  "frequencies with fewer turns than this in model.rope_original_context are "
                  "divided by model.rope_factor (yarn: beta_slow)")
          .formerly_named("model.rope_low_turns"),
      LLAMA_FIELD(rope_high_freq_factor, (NumberRange{.low = 0, .high = 1e6}),
                  "frequencies with more turns are unchanged (yarn: beta_fast); 0 "
                  "= published value: 4, yarn 32")
          .formerly_named("model.rope_high_turns"),
  }));
}

void check_rope(const config::Subject& subject, const LlamaOptions& model) {
  using enum ops::RopeScaling;
  const auto word = name_of(model.rope_scaling);
  const bool stretched = model.rope_scaling == llama3 || model.rope_scaling == yarn;
  if (model.rope_scaling == none && model.rope_factor != 1) {
    refuse(subject, "model.rope_factor",
           "{} has no effect with model.rope_scaling: none; use 1, or rope_scaling linear, llama3 "
           "or yarn",
           model.rope_factor);
  }
  if (!stretched) {
    const LlamaOptions defaults;
    const auto unused = [&](std::string_view key) {
      refuse(subject, key, "has no effect with model.rope_scaling: {}, only with llama3 or yarn",
             word);
    };
    if (model.rope_original_context != 0) unused("model.rope_original_context");
    if (model.rope_low_freq_factor != defaults.rope_low_freq_factor)
      unused("model.rope_low_freq_factor");
    if (model.rope_high_freq_factor != defaults.rope_high_freq_factor)
      unused("model.rope_high_freq_factor");
    return;
  }
  if (model.rope_original_context == 0) {
    refuse(subject, "model.rope_original_context",
           "none with model.rope_scaling: {}, which needs the context that was learned first "
           "(original_max_position_embeddings)",
           word);
  }
  const double high = transformer_options(model).rope.high_freq_factor;
  if (model.rope_low_freq_factor >= high) {
    refuse(subject, "model.rope_low_freq_factor",
           "{} is not below model.rope_high_freq_factor = {}", model.rope_low_freq_factor, high);
  }
}

// Keys of experts that a dense model would ignore.
void check_dense(const config::Subject& subject, const LlamaOptions& model) {
  const LlamaOptions plain;
  const auto unused = [&](std::string_view key, const auto& value, const auto& otherwise) {
    if (value != otherwise) refuse(subject, key, "has no effect without model.experts");
  };
#define UNUSED(name) unused("model." #name, model.name, plain.name)
  UNUSED(experts_per_token);
  UNUSED(expert_intermediate);
  UNUSED(shared_intermediate);
  UNUSED(experts_every);
  UNUSED(dense_layers);
  UNUSED(router);
  UNUSED(router_renormalize);
  UNUSED(router_scale);
  UNUSED(router_groups);
  UNUSED(router_groups_kept);
  UNUSED(router_balanced);
  UNUSED(balance_loss);
  UNUSED(sequence_balance_loss);
  UNUSED(router_z_loss);
  UNUSED(balance_rate);
#undef UNUSED
}

void check_llama(const config::Subject& subject) {
  const auto& model = subject.config.model.as<LlamaOptions>();
  if (model.experts == 0) check_dense(subject, model);
  if (model.qkv_bias && model.attention_bias)
    refuse(subject, "model.qkv_bias", "has no effect with model.attention_bias; remove one");
  if (model.qk_norm && model.qk_norm_whole)
    refuse(subject, "model.qk_norm", "contradicts model.qk_norm_whole; remove one");
  check_experts(subject, transformer_options(model));
  check_rotary_heads(subject, transformer_options(model), model.head_size > 0);
  check_rope(subject, model);
  check_text_head(subject, model);
  check_width_transfer(subject, model.mup_base_width);
}

}  // namespace

config::ModelFamily llama_family() {
  return text_family<LlamaOptions>(llama_name, llama_fields, check_llama);
}

}  // namespace trireme
