// SPDX-License-Identifier: Apache-2.0
#include "models/gpt_oss/gpt_oss.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "models/transformer/exchange.h"
#include "models/transformer/hf_keys.h"
#include "models/transformer/keys.h"

namespace trireme {
namespace {

// Turns in the pretraining context between which YaRN's ramp lies, as published.
constexpr double beta_slow = 1, beta_fast = 32;

ops::RopeOptions rope_of(const GptOssOptions& o) {
  using enum ops::RopeScaling;
  return {.base = o.rope_theta,
          .scaling = o.rope_factor > 1 ? yarn : none,
          .factor = o.rope_factor,
          .low_freq_factor = beta_slow,
          .high_freq_factor = beta_fast,
          .original_context = o.rope_original_context,
          .whole_pairs = false};
}

ExpertOptions experts_of(const GptOssOptions& o, std::int64_t intermediate) {
  return {.count = o.experts,
          .intermediate = intermediate,
          .router = {.slots = o.experts_per_token,
                     .score = ops::RouterScore::softmax_of_chosen,
                     .balanced = o.router_balanced},
          .router_bias = true,
          .biases = true,
          .fused = true,
          .activation = ops::ActivationKind::clamped_swiglu,
          .balance_loss = o.balance_loss,
          .sequence_balance_loss = o.sequence_balance_loss,
          .z_loss = o.router_z_loss};
}

}  // namespace

TransformerOptions transformer_options(const GptOssOptions& o) {
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
          .activation = ops::ActivationKind::clamped_swiglu,
          .gated_mlp = true,
          .experts = experts_of(o, intermediate),
          .biases = Biases::attention,
          .window = o.window,
          .sinks = true,
          .rotary = true,
          .rope = rope_of(o),
          .global_every = o.global_every,
          .global_rope = rope_of(o),
          .tied_head = false,
          .init_std = o.init_std};
}

namespace {

using config::IntegerRange;

#define GPT_OSS_FIELD(name, ...) TRIREME_MODEL_FIELD(GptOssOptions, name, __VA_ARGS__)

std::vector<config::Field> gpt_oss_fields() {
  return transformer_fields<GptOssOptions>({
      GPT_OSS_FIELD(global_every, (IntegerRange{1, 1024, {}, "none"}),
                    "without model.rope_local_theta"),
      GPT_OSS_FIELD(
          rope_original_context, (IntegerRange{1, std::int64_t{1} << 30, {}, "none"}),
          "pretraining context (original_max_position_embeddings), for llama3 and YaRN scaling"),
  });
}

void check_gpt_oss(const config::Subject& subject) {
  const auto& model = subject.config.model.as<GptOssOptions>();
  if (model.experts == 0) {
    refuse(subject, "model.experts",
           "none, but gpt_oss has experts in each layer; use 2 or more (published: 32 and 128)");
  }
  check_experts(subject, transformer_options(model));
  check_rotary_heads(subject, transformer_options(model), model.head_size > 0);
  if ((model.rope_factor > 1) == (model.rope_original_context > 0)) return;
  refuse(subject, "model.rope_original_context",
         "{} with model.rope_factor = {}; use the pretraining context and a factor above 1, or "
         "none and 1",
         model.rope_original_context == 0 ? "none" : fmt::to_string(model.rope_original_context),
         model.rope_factor);
}

}  // namespace

config::ModelFamily gpt_oss_family() {
  return text_family<GptOssOptions>(gpt_oss_name, gpt_oss_fields, check_gpt_oss);
}

namespace hugging_face {
namespace {

using Json = nlohmann::json;

std::vector<NamePair> gpt_oss_names(const ModelConfig& config) {
  return decoder_names(transformer_options(config.as<GptOssOptions>()), gpt_oss_experts);
}

// An absent or null rope_scaling means YaRN to transformers.
std::string gpt_oss_rope(const ops::RopeOptions& rope) {
  if (rope.scaling == ops::RopeScaling::none) return R"({"rope_type": "default"})";
  return fmt::format(R"({{"rope_type": "yarn", "factor": {}, "beta_slow": {}, "beta_fast": {}, )"
                     R"("truncate": false, "original_max_position_embeddings": {}}})",
                     rope.factor, rope.low_freq_factor, rope.high_freq_factor,
                     rope.original_context);
}

std::string gpt_oss_config(const ModelConfig& config) {
  const TransformerOptions model = transformer_options(config.as<GptOssOptions>());
  return fmt::format(
      R"({{
  "model_type": "gpt_oss",
  "architectures": ["GptOssForCausalLM"],
  "num_hidden_layers": {},
  "hidden_size": {},
  "num_attention_heads": {},
  "num_key_value_heads": {},
  "head_dim": {},
  "intermediate_size": {},
  "num_local_experts": {},
  "num_experts_per_tok": {},
  "max_position_embeddings": {},
  "vocab_size": {},
  "hidden_act": "silu",
  "swiglu_alpha": 1.702,
  "swiglu_limit": 7.0,
  "rms_norm_eps": {},
  "sliding_window": {},
  "layer_types": [{}],
  "rope_theta": {},
  "rope_scaling": {},
  "attention_bias": true,
  "attention_dropout": 0.0,
  "bos_token_id": null,
  "eos_token_id": null,
  "pad_token_id": null,
  "tie_word_embeddings": false,
  "torch_dtype": "float32"
}}
)",
      model.layers, model.hidden, model.heads, model.kv_heads, model.head_size, model.intermediate,
      model.experts.count, model.experts.router.slots, model.context, model.vocabulary,
      model.norm.epsilon, model.window > 0 ? model.window : model.context,
      layer_types(model.layers, model.global_every), model.rope.base, gpt_oss_rope(model.rope));
}

std::optional<std::string> gpt_oss_plain_name(std::string_view hf, const ModelConfig& /*model*/) {
  return std::string(hf);
}

// In rope_parameters since transformers 5; before, in rope_scaling, beside rope_theta.
void read_rope(const HfKeys& keys, GptOssOptions& model) {
  model.rope_theta = keys.number("rope_theta", 150000);
  const char* const name =
      keys.find("rope_scaling") != nullptr ? "rope_scaling" : "rope_parameters";
  static const Json published = {{"rope_type", "yarn"},
                                 {"factor", 32.0},
                                 {"original_max_position_embeddings", 4096},
                                 {"truncate", false}};
  const Json* const object = keys.has(name) ? keys.find(name) : &published;
  if (object == nullptr || !object->is_object()) keys.refuse(name, "not an object");
  if (name != std::string_view("rope_parameters") && keys.find("rope_parameters") != nullptr)
    keys.refuse(name, "beside rope_parameters; remove one from the file");
  const HfKeys rope(*object, keys.path(), fmt::format("{}.", name));
  model.rope_theta = rope.number("rope_theta", model.rope_theta);
  const std::string type = rope.text("rope_type", rope.text("type"));
  rope.ignore("type");
  if (type == "yarn") {
    model.rope_factor = rope.number("factor");
    model.rope_original_context = rope.size("original_max_position_embeddings");
    rope.expect("beta_slow", beta_slow, "our YaRN");
    rope.expect("beta_fast", beta_fast, "our YaRN");
    if (rope.flag("truncate", true)) rope.refuse("truncate", "but models here need false");
  } else if (type != "default") {
    rope.refuse("rope_type", "supported are default and yarn");
  }
  rope.expect_nothing_else();
}

void read_gpt_oss(const HfKeys& keys, std::string_view /*type*/, ModelConfig& config) {
  config.family = gpt_oss_name;
  auto& model = config.as<GptOssOptions>();
  constexpr std::int64_t published_head = 64, published_window = 128, published_experts = 128,
                         published_slots = 4;
  model = {.layers = keys.size("num_hidden_layers"),
           .hidden = keys.size("hidden_size"),
           .heads = keys.size("num_attention_heads"),
           .kv_heads = keys.size_or("num_key_value_heads", 0),
           .head_size = keys.size_or("head_dim", published_head),
           .intermediate = keys.size("intermediate_size"),
           .context = keys.size("max_position_embeddings"),
           .vocabulary = keys.size("vocab_size"),
           .norm_epsilon = keys.number("rms_norm_eps", 1e-5),
           .window = keys.size_or("sliding_window", published_window)};
  model.experts = keys.size_or(keys.has("num_experts") ? "num_experts" : "num_local_experts",
                               published_experts);
  model.experts_per_token = keys.size_or("num_experts_per_tok", published_slots);
  model.balance_loss = read_balance_loss(keys, model.experts_per_token, model.layers);
  keys.expect("experts_per_token", model.experts_per_token, "num_experts_per_tok");  // an old name
  model.global_every = read_global_every(keys, model.layers, /*missing=*/2);
  expect_silu(keys, "our clamped SwiGLU");
  keys.expect("swiglu_alpha", 1.702, "our clamped SwiGLU");
  keys.expect("swiglu_limit", 7.0, "our clamped SwiGLU");
  keys.expect("attention_bias", true, "our attention");
  keys.expect("tie_word_embeddings", false, "our head");
  keys.ignore("initial_context_length");  // the same as in rope_scaling
  // Of the stored experts (launch/exchange/mxfp4.h).
  if (const Json* const stored = keys.find("quantization_config");
      stored != nullptr && (!stored->is_object() || stored->value("quant_method", "") != "mxfp4"))
    keys.refuse("quantization_config", "the only supported quant_method is mxfp4");
  read_rope(keys, model);
}

void canonicalize_gpt_oss(ModelConfig& model) {
  auto& options = model.as<GptOssOptions>();
  const TransformerOptions meant = transformer_options(options);
  options.kv_heads = meant.kv_heads;
  options.head_size = meant.head_size;
  options.intermediate = meant.intermediate;
  if (options.global_every > options.layers) options.global_every = 0;
  if (options.window == 0) options.window = options.context;  // as exports write it
  options.context = 0;
  // They change no output.
  options.balance_loss = options.sequence_balance_loss = options.router_z_loss = 0;
}

}  // namespace

const Exchange& gpt_oss_exchange() {
  static constexpr std::array<std::string_view, 1> types{"gpt_oss"};
  static constexpr Exchange exchange{
      gpt_oss_names, gpt_oss_config,       gpt_oss_plain_name,          types,
      read_gpt_oss,  canonicalize_gpt_oss, "model.embed_tokens.weight", "lm_head.weight"};
  return exchange;
}

}  // namespace hugging_face
}  // namespace trireme
