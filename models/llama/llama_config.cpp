// SPDX-License-Identifier: Apache-2.0
#include "models/llama/llama_config.h"

#include "models/llama/llama.h"
#include "models/transformer/head_rules.h"
#include "runtime/config/rules/rules.h"

namespace trireme {
namespace {

using config::IntegerRange;
using config::NumberRange;

#define LLAMA_FIELD(name, ...) TRIREME_MODEL_FIELD(LlamaOptions, name, __VA_ARGS__)

// Rows of keys that GPT-2 has too are one with its rows: description and limits are there.
std::vector<config::Field> llama_fields() {
  constexpr std::int64_t longest = std::int64_t{1} << 30;
  return {
      LLAMA_FIELD(layers, IntegerRange{1, 1024}, ""),
      LLAMA_FIELD(hidden, IntegerRange{1, 65536}, ""),
      LLAMA_FIELD(heads, IntegerRange{1, 1024}, ""),
      LLAMA_FIELD(context, IntegerRange{1, 1 << 20}, ""),
      LLAMA_FIELD(vocabulary, IntegerRange{2, 2147483647}, ""),
      LLAMA_FIELD(dropout, (NumberRange{.low = 0, .high = 1, .high_is_open = true}), ""),
      LLAMA_FIELD(init_std, (NumberRange{.low = 0, .high = 10, .low_is_open = true}), ""),
      LLAMA_FIELD(mup_base_width, (IntegerRange{1, 65536, {}, "off"}), ""),
      LLAMA_FIELD(kv_heads, (IntegerRange{1, 1024, {}, "auto"}),
                  "heads of keys and values, each for as many heads of queries; divides "
                  "model.heads; auto = model.heads"),
      LLAMA_FIELD(head_size, (IntegerRange{1, max_head_size, {}, "auto"}),
                  "width of a head, even; auto = model.hidden / model.heads"),
      LLAMA_FIELD(intermediate, (IntegerRange{1, 1 << 20, {}, "auto"}),
                  "width of the MLP; auto = 8/3 model.hidden, up to a multiple of 64, with vit 4 x "
                  "model.hidden"),
      LLAMA_FIELD(tied_head, config::Free{}, "the output projection is the token table"),
      LLAMA_FIELD(norm_epsilon, (NumberRange{.low = 0, .high = 1, .low_is_open = true}),
                  "added to the mean square in RMS norms, to the variance in layer norms"),
      LLAMA_FIELD(qkv_bias, config::Free{}, "biases of queries, keys and values (Qwen 2)"),
      LLAMA_FIELD(qk_norm, config::Free{}, "RMS norm of each head of queries and keys (Qwen 3)"),
      LLAMA_FIELD(
          window, (IntegerRange{1, longest, {}, "none"}),
          "attention to so many tokens back, the own included (Mistral; Gemma's local layers); "
          "none = all"),
      LLAMA_FIELD(attention_soft_cap, (NumberRange{.low = 0, .high = 1e6}),
                  "scores s of attention become cap * tanh(s / cap); 0 = they stay"),
      LLAMA_FIELD(
          rope_theta, (NumberRange{.low = 1, .high = 1e12, .low_is_open = true}),
          "base of the rotary frequencies; of gemma3 that of global layers, published as 1000000"),
      LLAMA_FIELD(rope_scaling, config::one_of<ops::RopeScaling>(),
                  "how rotary angles are stretched for contexts longer than those learned first"),
      LLAMA_FIELD(rope_factor, (NumberRange{.low = 1, .high = 1e6}),
                  "by how much, with model.rope_scaling; of gemma3's global layers, linear"),
      LLAMA_FIELD(rope_original_context, (IntegerRange{1, longest, {}, "none"}),
                  "the context learned first; needed by rope_scaling llama3 and yarn"),
      LLAMA_FIELD(rope_low_turns, (NumberRange{.low = 0, .high = 1e6, .low_is_open = true}),
                  "frequencies that turn less often in it are stretched wholly (low_freq_factor, "
                  "beta_slow)"),
      LLAMA_FIELD(rope_high_turns, (NumberRange{.low = 0, .high = 1e6}),
                  "those that turn more often are kept (high_freq_factor, beta_fast); 0 = as "
                  "published: 4, with yarn 32"),
  };
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
    if (model.rope_low_turns != defaults.rope_low_turns) unused("model.rope_low_turns");
    if (model.rope_high_turns != defaults.rope_high_turns) unused("model.rope_high_turns");
    return;
  }
  if (model.rope_original_context == 0) {
    refuse(subject, "model.rope_original_context",
           "none with model.rope_scaling: {}, which needs the context that was learned first "
           "(original_max_position_embeddings)",
           word);
  }
  const double high = transformer_options(model).rope.high_turns;
  if (model.rope_low_turns >= high) {
    refuse(subject, "model.rope_low_turns", "{} is not below model.rope_high_turns = {}",
           model.rope_low_turns, high);
  }
}

void check_llama(const config::Subject& subject) {
  const auto& model = subject.config.model.as<LlamaOptions>();
  check_rotary_heads(subject, transformer_options(model), model.head_size > 0);
  check_rope(subject, model);
  check_width_transfer(subject, model.mup_base_width);
}

}  // namespace

config::ModelFamily llama_family() {
  return {.name = llama_name,
          .input = config::Input::tokens,
          .splits_tensor = true,
          .fields = llama_fields,
          .check = check_llama,
          .limits =
              [](const Config& config) {
                return limits_of(llama_chain(config.model.as<LlamaOptions>()));
              },
          .targets_per_sample =
              [](const ModelConfig& model) { return model.as<LlamaOptions>().context; }};
}

}  // namespace trireme
