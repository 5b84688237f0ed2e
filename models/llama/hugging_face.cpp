// SPDX-License-Identifier: Apache-2.0
#include "models/llama/llama.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/transformer/exchange.h"
#include "models/transformer/hf_keys.h"
#include "runtime/base/error.h"

namespace trireme::hugging_face {
namespace {

using Json = nlohmann::json;

std::vector<NamePair> llama_names(const ModelConfig& config) {
  return decoder_names(transformer_options(config.as<LlamaOptions>()));
}

struct Kind {
  std::string_view type, architecture;
};

Kind kind_of(const LlamaOptions& model) {
  if (model.attention_soft_cap > 0)
    fail(ExitCode::config,
         "model.attention_soft_cap: {} is not supported by Hugging Face's Llama, Mistral and Qwen",
         model.attention_soft_cap);
  if (model.qk_norm && model.qkv_bias)
    fail(ExitCode::config,
         "model.qk_norm and model.qkv_bias: Hugging Face's libraries have models with either, but "
         "none with both");
  if (model.qk_norm) return {"qwen3", "Qwen3ForCausalLM"};
  if (model.qkv_bias) return {"qwen2", "Qwen2ForCausalLM"};
  if (model.window > 0) return {"mistral", "MistralForCausalLM"};
  return {"llama", "LlamaForCausalLM"};
}

std::string rope_json(const ops::RopeOptions& rope) {
  switch (rope.scaling) {
    case ops::RopeScaling::none:
      return "null";
    case ops::RopeScaling::linear:
      return fmt::format(R"({{"rope_type": "linear", "factor": {}}})", rope.factor);
    case ops::RopeScaling::llama3:
      return fmt::format(
          R"({{"rope_type": "llama3", "factor": {}, "low_freq_factor": {}, "high_freq_factor": {},)"
          R"( "original_max_position_embeddings": {}}})",
          rope.factor, rope.low_freq_factor, rope.high_freq_factor, rope.original_context);
    case ops::RopeScaling::yarn:
      return fmt::format(R"({{"rope_type": "yarn", "factor": {}, "beta_slow": {}, "beta_fast": {},)"
                         R"( "original_max_position_embeddings": {}}})",
                         rope.factor, rope.low_freq_factor, rope.high_freq_factor,
                         rope.original_context);
  }
  return "null";
}

std::string llama_config(const ModelConfig& config) {
  const auto& options = config.as<LlamaOptions>();
  const Kind kind = kind_of(options);
  const TransformerOptions model = transformer_options(options);
  const bool qwen = kind.type.starts_with("qwen");
  std::string window = qwen ? fmt::format(R"(
  "use_sliding_window": {},
  "max_window_layers": 0,)",
                                          model.window > 0)
                            : "";
  if (qwen || kind.type == "mistral") {
    window += fmt::format("\n  \"sliding_window\": {},",
                          model.window > 0 ? fmt::format("{}", model.window) : "null");
  }
  return fmt::format(
      R"({{
  "model_type": "{}",
  "architectures": ["{}"],
  "num_hidden_layers": {},
  "hidden_size": {},
  "num_attention_heads": {},
  "num_key_value_heads": {},
  "head_dim": {},
  "intermediate_size": {},
  "max_position_embeddings": {},
  "vocab_size": {},
  "hidden_act": "silu",
  "rms_norm_eps": {},
  "rope_theta": {},
  "rope_scaling": {},{}
  "attention_bias": false,
  "mlp_bias": false,
  "attention_dropout": 0.0,
  "bos_token_id": null,
  "eos_token_id": null,
  "tie_word_embeddings": {},
  "torch_dtype": "float32"
}}
)",
      kind.type, kind.architecture, model.layers, model.hidden, model.heads, model.kv_heads,
      model.head_size, model.intermediate, model.context, model.vocabulary, model.norm.epsilon,
      model.rope.base, rope_json(model.rope), window, model.tied_head);
}

// Old files also hold the frequencies; files may contain a tied head besides the tokens.
std::optional<std::string> llama_plain_name(std::string_view hf, const ModelConfig& model) {
  if (hf.ends_with(".rotary_emb.inv_freq")) return {};
  if (hf == "lm_head.weight" && model.as<LlamaOptions>().tied_head) return {};
  return std::string(hf);
}

void read_scaling(const HfKeys& keys, const HfKeys& rope, const std::string& type,
                  LlamaOptions& model) {
  constexpr const char* learned = "original_max_position_embeddings";
  const auto scaling = value_named<ops::RopeScaling>(type);
  if (!scaling || *scaling == ops::RopeScaling::none)
    rope.refuse("rope_type", "supported are linear, llama3 and yarn");
  model.rope_scaling = *scaling;
  const bool yarn = *scaling == ops::RopeScaling::yarn;
  const bool by_contexts = yarn && rope.has("factor") && rope.find("factor") == nullptr;
  if (!by_contexts) model.rope_factor = rope.number("factor");
  if (*scaling == ops::RopeScaling::linear) return;
  model.rope_original_context = model.context;
  for (const HfKeys* const object : {&rope, &keys})  // the nested object has priority
    if (object->find(learned) != nullptr) model.rope_original_context = object->size(learned);
  if (by_contexts)
    model.rope_factor =
        static_cast<double>(model.context) / static_cast<double>(model.rope_original_context);
  if (!yarn) {
    model.rope_low_freq_factor = rope.number("low_freq_factor");
    model.rope_high_freq_factor = rope.number("high_freq_factor");
    return;
  }
  const auto or_published = [&](const char* key, double published) {
    const double value = rope.number(key, 0);
    return value == 0 ? published : value;
  };
  model.rope_low_freq_factor = or_published("beta_slow", 1);
  model.rope_high_freq_factor = or_published("beta_fast", 32);
  // Either one alone is ignored.
  if (rope.number("mscale", 0) != 0 && rope.number("mscale_all_dim", 0) != 0)
    rope.refuse("mscale", "which is not supported");
  rope.ignore("mscale_all_dim");
}

// Before version 5 transformers had rope_theta next to rope_scaling; now both are in
// rope_parameters.
void read_rope(const HfKeys& keys, LlamaOptions& model) {
  model.rope_theta = keys.number("rope_theta", 10000.0);
  keys.ignore("original_max_position_embeddings");
  const Json *const old = keys.find("rope_scaling"), *const now = keys.find("rope_parameters");
  const bool has_old = old != nullptr && !old->empty();
  if (has_old && now != nullptr && *old != *now)
    keys.refuse("rope_scaling", "but rope_parameters differs; remove one from the file");
  const char* const name = has_old ? "rope_scaling" : "rope_parameters";
  const Json* const object = has_old ? old : now;
  if (object == nullptr) return;
  if (!object->is_object()) keys.refuse(name, "not an object");
  const HfKeys rope(*object, keys.path(), fmt::format("{}.", name));
  model.rope_theta = rope.number("rope_theta", model.rope_theta);
  const std::string type = rope.text("rope_type", rope.text("type", "default"));
  for (const char* const key : {"type", "original_max_position_embeddings", "finetuned"})
    rope.ignore(key);
  if (type != "default") read_scaling(keys, rope, type, model);
  rope.expect_nothing_else();
}

// Number of layers that attend to all tokens by layer_types; nothing if the key is missing.
std::optional<std::int64_t> whole_layers(const HfKeys& keys, std::int64_t layers) {
  const Json* const types = keys.find("layer_types");
  if (types == nullptr) return std::nullopt;
  const auto is = [](const char* wanted) {
    return [wanted](const Json& type) { return type == wanted; };
  };
  const std::int64_t whole =
      types->is_array() ? std::ranges::count_if(*types, is("full_attention")) : -1;
  const std::int64_t windows =
      types->is_array() ? std::ranges::count_if(*types, is("sliding_attention")) : -1;
  if (whole + windows != layers || std::ssize(*types) != layers)
    keys.refuse(
        "layer_types",
        fmt::format(
            "not a list of {} times full_attention or sliding_attention, the supported types",
            layers));
  return whole;
}

// The window of all layers. In Mistral all layers have it; in Qwen those in layer_types, or those
// from max_window_layers on.
std::int64_t window_of(const HfKeys& keys, std::string_view type, std::int64_t layers) {
  constexpr std::int64_t published_window = 4096, published_whole = 28;
  const bool qwen = type.starts_with("qwen");
  const bool has_window = type == "mistral" || (qwen && keys.flag("use_sliding_window", false));
  const std::int64_t window = has_window ? keys.size_or("sliding_window", published_window) : 0;
  if (window < 0 || (window == 0 && has_window && keys.find("sliding_window") != nullptr))
    keys.refuse("sliding_window", "not 1 or more");
  const std::optional<std::int64_t> listed = whole_layers(keys, layers);
  std::int64_t whole = window > 0 ? 0 : layers;
  if (qwen && window > 0)
    whole = listed.value_or(std::clamp<std::int64_t>(
        keys.has("max_window_layers") ? keys.size("max_window_layers") : published_whole, 0,
        layers));
  if (qwen) {
    keys.ignore("sliding_window");
    keys.ignore("max_window_layers");
  }
  if (listed && *listed != whole)
    keys.refuse("layer_types", fmt::format("but the window of this file is {}",
                                           window > 0 ? fmt::to_string(window) : "none"));
  if (whole == 0 || whole == layers) return whole == 0 ? window : 0;
  keys.refuse(listed ? "layer_types" : "max_window_layers",
              fmt::format("so that {} of {} layers attend to all tokens and the others to {}; "
                          "models here have one window for all layers, or none",
                          whole, layers, window));
}

void read_llama(const HfKeys& keys, std::string_view type, ModelConfig& config) {
  config.family = llama_name;
  auto& model = config.as<LlamaOptions>();
  const bool qwen = type.starts_with("qwen");
  constexpr std::int64_t mistral_heads = 8, qwen_heads = 32, qwen3_head_size = 128;
  model = {.layers = keys.size("num_hidden_layers"),
           .hidden = keys.size("hidden_size"),
           .heads = keys.size("num_attention_heads"),
           .kv_heads = keys.size_or("num_key_value_heads",
                                    qwen ? qwen_heads : (type == "mistral" ? mistral_heads : 0)),
           .head_size = keys.size_or("head_dim", type == "qwen3" ? qwen3_head_size : 0),
           .intermediate = keys.size("intermediate_size"),
           .context = keys.size("max_position_embeddings"),
           .vocabulary = keys.size("vocab_size"),
           .tied_head = keys.flag("tie_word_embeddings", false),
           .norm_epsilon = keys.number("rms_norm_eps", 1e-6),
           .qkv_bias = type == "qwen2",
           .qk_norm = type == "qwen3"};
  keys.expect("hidden_act", "silu", "our SwiGLU");
  if (type == "qwen2") keys.ignore("attention_bias");
  model.window = window_of(keys, type, model.layers);
  read_rope(keys, model);
}

void spell_llama(ModelConfig& model) {
  auto& options = model.as<LlamaOptions>();
  const TransformerOptions meant = transformer_options(options);
  options.kv_heads = meant.kv_heads;
  options.head_size = meant.head_size;
  options.intermediate = meant.intermediate;
  options.rope_high_freq_factor = meant.rope.high_freq_factor;
  options.context = 0;
}

}  // namespace

const Exchange& llama_exchange() {
  static constexpr std::array<std::string_view, 4> types{"llama", "mistral", "qwen2", "qwen3"};
  static constexpr Exchange exchange{llama_names,
                                     llama_config,
                                     llama_plain_name,
                                     types,
                                     read_llama,
                                     spell_llama,
                                     "model.embed_tokens.weight",
                                     "lm_head.weight"};
  return exchange;
}

}  // namespace trireme::hugging_face
