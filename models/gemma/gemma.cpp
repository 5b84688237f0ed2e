// SPDX-License-Identifier: Apache-2.0
#include "models/gemma/gemma.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "models/transformer/exchange.h"
#include "models/transformer/hf_keys.h"
#include "models/transformer/keys.h"

namespace trireme {

TransformerOptions transformer_options(const GemmaOptions& o) {
  using enum ops::RopeScaling;
  return {
      .layers = o.layers,
      .hidden = o.hidden,
      .heads = o.heads,
      .kv_heads = o.kv_heads > 0 ? o.kv_heads : o.heads,
      .head_size = o.head_size > 0 ? o.head_size : o.hidden / o.heads,
      .intermediate = o.intermediate > 0 ? o.intermediate : balanced_intermediate(o.hidden),
      .context = o.context,
      .vocabulary = o.vocabulary,
      .dropout = o.dropout,
      .norm = {.kind = NormKind::rms, .epsilon = o.norm_epsilon, .offset = 1},
      .branch_norms = true,
      .activation = ops::ActivationKind::gelu_tanh,
      .gated_mlp = true,
      .biases = Biases::none,
      .qk_norm = true,
      .window = o.window,
      .attention_scale = o.query_pre_attn_scalar > 0 ? 1 / std::sqrt(o.query_pre_attn_scalar) : 0,
      .rotary = true,
      .rope = {.base = o.rope_local_theta},
      .global_every = o.global_every,
      .global_rope = {.base = o.rope_theta,
                      .scaling = o.rope_factor > 1 ? linear : none,
                      .factor = o.rope_factor},
      .tied_head = true,
      .scaled_embedding = true,
      .init_std = o.init_std};
}

namespace {

using config::IntegerRange;
using config::NumberRange;

#define GEMMA_FIELD(name, ...) TRIREME_MODEL_FIELD(GemmaOptions, name, __VA_ARGS__)

std::vector<config::Field> gemma_fields() {
  return transformer_fields<GemmaOptions>({
      GEMMA_FIELD(global_every, (IntegerRange{1, 1024, {}, "none"}),
                  "every N-th layer attends to all tokens and uses model.rope_theta; the others "
                  "model.window and model.rope_local_theta"),
      GEMMA_FIELD(rope_local_theta, rope_theta_range,
                  "base of the rotary frequencies of local layers"),
      GEMMA_FIELD(query_pre_attn_scalar, (NumberRange{.low = 0, .high = 1e6}),
                  "attention scores are divided by its square root; 0 = model.head_size"),
  });
}

void check_gemma(const config::Subject& subject) {
  const auto& model = subject.config.model.as<GemmaOptions>();
  check_rotary_heads(subject, transformer_options(model), model.head_size > 0);
  if (model.global_every == 0 && model.rope_factor != 1) {
    refuse(subject, "model.rope_factor",
           "{} has no effect with model.global_every: none, where no layer is global; use 1, or "
           "global_every: {}",
           model.rope_factor, model.layers);
  }
}

}  // namespace

config::ModelFamily gemma_family() {
  return text_family<GemmaOptions>(gemma_name, gemma_fields, check_gemma);
}

namespace hugging_face {
namespace {

using Json = nlohmann::json;

std::vector<NamePair> gemma_names(const ModelConfig& config) {
  return decoder_names(transformer_options(config.as<GemmaOptions>()));
}

std::string gemma_config(const ModelConfig& config) {
  const auto& options = config.as<GemmaOptions>();
  const TransformerOptions model = transformer_options(options);
  const std::string scaling =
      options.rope_factor > 1
          ? fmt::format(R"({{"rope_type": "linear", "factor": {}}})", options.rope_factor)
          : "null";
  const double divisor = options.query_pre_attn_scalar;
  return fmt::format(
      R"({{
  "model_type": "gemma3_text",
  "architectures": ["Gemma3ForCausalLM"],
  "num_hidden_layers": {},
  "hidden_size": {},
  "num_attention_heads": {},
  "num_key_value_heads": {},
  "head_dim": {},
  "intermediate_size": {},
  "max_position_embeddings": {},
  "vocab_size": {},
  "hidden_activation": "gelu_pytorch_tanh",
  "rms_norm_eps": {},
  "query_pre_attn_scalar": {},
  "sliding_window": {},
  "layer_types": [{}],
  "rope_theta": {},
  "rope_local_base_freq": {},
  "rope_scaling": {},
  "attn_logit_softcapping": null,
  "final_logit_softcapping": null,
  "attention_bias": false,
  "attention_dropout": 0.0,
  "bos_token_id": null,
  "eos_token_id": null,
  "pad_token_id": null,
  "tie_word_embeddings": true,
  "torch_dtype": "float32"
}}
)",
      model.layers, model.hidden, model.heads, model.kv_heads, model.head_size, model.intermediate,
      model.context, model.vocabulary, model.norm.epsilon,
      divisor > 0 ? divisor : static_cast<double>(model.head_size),
      // Hugging Face requires a number; a window of the whole context has no effect.
      model.window > 0 ? model.window : model.context,
      layer_types(model.layers, model.global_every), options.rope_theta, options.rope_local_theta,
      scaling);
}

// Files may contain a tied head besides the tokens.
std::optional<std::string> gemma_plain_name(std::string_view hf, const ModelConfig& /*model*/) {
  if (hf == "lm_head.weight") return {};
  return std::string(hf);
}

// The factor of a linear scaling, or 1.
double read_factor(const HfKeys& rope) {
  const std::string type = rope.text("rope_type", rope.text("type", "default"));
  rope.ignore("type");
  if (type == "default") return 1;
  if (type != "linear") rope.refuse("rope_type", "supported are default and linear");
  return rope.number("factor");
}

// Per layer kind in rope_parameters since transformers 5; before, next to rope_scaling.
void read_rope(const HfKeys& keys, GemmaOptions& model) {
  model.rope_theta = keys.number("rope_theta", 1e6);
  model.rope_local_theta = keys.number("rope_local_base_freq", 10000);
  const auto each = [](const HfKeys& parent, std::string_view key, const std::string& where,
                       auto&& read) {
    const Json* const object = parent.find(key);
    if (object == nullptr) return;
    if (!object->is_object()) parent.refuse(key, "not an object");
    const HfKeys rope(*object, parent.path(), where);
    read(rope);
    rope.expect_nothing_else();
  };
  if (keys.find("rope_scaling") != nullptr && keys.find("rope_parameters") != nullptr)
    keys.refuse("rope_scaling", "beside rope_parameters; remove one from the file");
  each(keys, "rope_scaling", "rope_scaling.",
       [&](const HfKeys& rope) { model.rope_factor = read_factor(rope); });
  each(keys, "rope_parameters", "rope_parameters.", [&](const HfKeys& kinds) {
    each(kinds, global_layer, "rope_parameters.full_attention.", [&](const HfKeys& rope) {
      model.rope_theta = rope.number("rope_theta", model.rope_theta);
      model.rope_factor = read_factor(rope);
    });
    each(kinds, local_layer, "rope_parameters.sliding_attention.", [&](const HfKeys& rope) {
      model.rope_local_theta = rope.number("rope_theta", model.rope_local_theta);
      if (read_factor(rope) != 1) rope.refuse("factor", "but local layers here have none");
    });
  });
}

void read_gemma(const HfKeys& keys, std::string_view /*type*/, ModelConfig& config) {
  config.family = gemma_name;
  auto& model = config.as<GemmaOptions>();
  constexpr std::int64_t published_head = 256, published_window = 4096;
  model = {.layers = keys.size("num_hidden_layers"),
           .hidden = keys.size("hidden_size"),
           .heads = keys.size("num_attention_heads"),
           .kv_heads = keys.size_or("num_key_value_heads", 0),
           .head_size = keys.size_or("head_dim", published_head),
           .intermediate = keys.size("intermediate_size"),
           .context = keys.size("max_position_embeddings"),
           .vocabulary = keys.size("vocab_size"),
           .norm_epsilon = keys.number("rms_norm_eps", 1e-6),
           .query_pre_attn_scalar = keys.number("query_pre_attn_scalar", 256),
           .window = keys.size_or("sliding_window", published_window)};
  constexpr std::int64_t published_pattern = 6;  // of older files, without layer_types
  model.global_every = read_global_every(keys, model.layers,
                                         keys.size_or("sliding_window_pattern", published_pattern));
  keys.ignore("_sliding_window_pattern");
  keys.expect("hidden_activation", "gelu_pytorch_tanh", "our gated MLP");
  keys.expect("tie_word_embeddings", true, "our head");
  keys.expect("attn_logit_softcapping", nullptr, "our attention");
  keys.expect("final_logit_softcapping", nullptr, "our head");
  keys.expect("use_bidirectional_attention", false, "our causal attention");
  keys.ignore("cache_implementation");
  read_rope(keys, model);
  if (model.global_every == 0) model.rope_factor = 1;  // no layer uses it
}

void canonicalize_gemma(ModelConfig& model) {
  auto& options = model.as<GemmaOptions>();
  const TransformerOptions meant = transformer_options(options);
  options.kv_heads = meant.kv_heads;
  options.head_size = meant.head_size;
  options.intermediate = meant.intermediate;
  if (options.query_pre_attn_scalar == 0)
    options.query_pre_attn_scalar = static_cast<double>(meant.head_size);
  if (options.global_every > options.layers) options.global_every = 0;
  if (options.global_every == 0) {
    options.rope_theta = options.rope_local_theta;
    options.rope_factor = 1;
  }
  if (options.window == 0) options.window = options.context;  // as exports write it
  options.context = 0;
}

}  // namespace

const Exchange& gemma_exchange() {
  static constexpr std::array<std::string_view, 1> types{"gemma3_text"};
  static constexpr Exchange exchange{gemma_names,
                                     gemma_config,
                                     gemma_plain_name,
                                     types,
                                     read_gemma,
                                     canonicalize_gemma,
                                     "model.embed_tokens.weight",
                                     "lm_head.weight"};
  return exchange;
}

}  // namespace hugging_face
}  // namespace trireme
