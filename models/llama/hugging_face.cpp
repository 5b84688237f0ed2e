// SPDX-License-Identifier: Apache-2.0
#include "models/llama/llama.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/heads/head_exchange.h"
#include "models/transformer/exchange.h"
#include "models/transformer/hf_keys.h"
#include "runtime/base/error.h"

namespace trireme::hugging_face {
namespace {

using Json = nlohmann::json;

struct Kind {
  std::string_view type, architecture;
};

bool first_layers(const std::vector<std::int64_t>& layers) {
  for (std::size_t i = 0; i < layers.size(); ++i)
    if (std::ranges::find(layers, static_cast<std::int64_t>(i)) == layers.end()) return false;
  return true;
}

// Of models with experts: Mixtral and Qwen 3's choose by a softmax, dots.llm1 like DeepSeek-V3.
Kind kind_of_experts(const LlamaOptions& model) {
  const ExpertOptions experts = transformer_options(model).experts;
  const bool softmax = experts.router.score != ops::RouterScore::sigmoid;
  const bool every_layer = model.experts_every == 1 && model.dense_layers.empty();
  const bool plain = experts.shared_intermediate == 0 && experts.router.scale == 1 &&
                     experts.router.groups == 1 && softmax && !experts.choice_bias() &&
                     !experts.router.balanced;
  if (model.qk_norm && plain) return {"qwen3_moe", "Qwen3MoeForCausalLM"};
  const bool sums_to_one =
      experts.router.renormalize || experts.router.score == ops::RouterScore::softmax_of_chosen;
  if (!model.qk_norm && plain && every_layer && sums_to_one)
    return {"mixtral", "MixtralForCausalLM"};
  if (model.qk_norm && !softmax && !experts.router.balanced && model.experts_every == 1 &&
      first_layers(model.dense_layers) && experts.shared_intermediate % experts.intermediate == 0)
    return {"dots1", "Dots1ForCausalLM"};
  fail(ExitCode::config,
       "model.experts: {}: Hugging Face's libraries have no such model: with model.qk_norm, a "
       "softmax router and no shared MLP Qwen3-MoE, the same without qk_norm and dense layers "
       "Mixtral, with qk_norm, a sigmoid router and the first layers dense dots.llm1",
       experts.count);
}

Kind kind_of(const LlamaOptions& model) {
  if (model.attention_soft_cap > 0)
    fail(ExitCode::config,
         "model.attention_soft_cap: {} is not supported by Hugging Face's Llama, Mistral and Qwen",
         model.attention_soft_cap);
  if (model.qk_norm && model.qkv_bias)
    fail(ExitCode::config,
         "model.qk_norm and model.qkv_bias: Hugging Face's libraries have models with either, but "
         "none with both");
  const bool olmo = model.norm_after && model.qk_norm_whole;
  const int kinds = (model.experts > 0) + model.qkv_bias + (model.unrotated_every > 0) +
                    (model.norm_after || model.qk_norm_whole);
  const bool plain = !model.qk_norm && model.window == 0;
  if (kinds == 0 && model.qk_norm) return {"qwen3", "Qwen3ForCausalLM"};
  if (kinds == 0 && plain) return {"llama", "LlamaForCausalLM"};
  if (kinds == 1 && plain && olmo) return {"olmo2", "Olmo2ForCausalLM"};
  if (kinds == 1 && plain && model.unrotated_every > 0) return {"smollm3", "SmolLM3ForCausalLM"};
  if (kinds == 1 && model.experts > 0 && !model.attention_bias) return kind_of_experts(model);
  if (kinds == 1 && model.qkv_bias && !model.qk_norm) return {"qwen2", "Qwen2ForCausalLM"};
  if (kinds == 0 && !model.attention_bias) return {"mistral", "MistralForCausalLM"};
  fail(ExitCode::config,
       "the model section: Hugging Face's libraries have no model with these keys together; they "
       "have model.qk_norm (Qwen 3) with model.attention_bias and model.window, model.qkv_bias "
       "(Qwen 2) or no bias (Mistral) with model.window, norm_after with qk_norm_whole (OLMo 2), "
       "unrotated_every (SmolLM3) or neither (Llama) with attention_bias, and model.experts with "
       "qk_norm and window");
}

bool is_mixtral(const ModelConfig& config) {
  const auto& model = config.as<LlamaOptions>();
  return model.experts > 0 && kind_of(model).type == "mixtral";
}

std::vector<NamePair> llama_names(const ModelConfig& config) {
  return decoder_names(transformer_options(config.as<LlamaOptions>()),
                       is_mixtral(config) ? mixtral_experts : qwen_experts);
}

// The keys of a model with experts.
std::string experts_json(const LlamaOptions& options, std::string_view type) {
  const TransformerOptions model = transformer_options(options);
  const ExpertOptions& experts = model.experts;
  if (!experts.any()) return "";
  const ops::RouterOptions& router = experts.router;
  std::string keys = fmt::format("\n  \"num_experts_per_tok\": {},", router.slots);
  if (type == "mixtral")
    return fmt::format("{}\n  \"num_local_experts\": {},", keys, experts.count);
  const bool renormalized =
      router.renormalize || router.score == ops::RouterScore::softmax_of_chosen;
  keys += fmt::format(R"(
  "moe_intermediate_size": {},
  "norm_topk_prob": {},)",
                      experts.intermediate, renormalized);
  if (type == "qwen3_moe")
    return fmt::format(R"({}
  "num_experts": {},
  "decoder_sparse_step": {},
  "mlp_only_layers": [{}],)",
                       keys, experts.count, options.experts_every,
                       fmt::join(options.dense_layers, ", "));
  return fmt::format(R"({}
  "n_routed_experts": {},
  "n_shared_experts": {},
  "n_group": {},
  "topk_group": {},
  "routed_scaling_factor": {:#},
  "first_k_dense_replace": {},)",
                     keys, experts.count, experts.shared_intermediate / experts.intermediate,
                     router.groups, router.groups_kept, options.router_scale,
                     options.dense_layers.size());
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

// Whether a config.json says in how many layers the window begins.
bool windows_by_layer(std::string_view type) {
  return type.starts_with("qwen") || type == "dots1";
}

// SmolLM3's list has a 1 for each layer with rotary positions.
std::string no_rope_json(const LlamaOptions& options) {
  std::vector<int> rotary;
  for (std::int64_t i = 0; i < options.layers; ++i)
    rotary.push_back((i + 1) % options.unrotated_every == 0 ? 0 : 1);
  return fmt::format("\n  \"no_rope_layers\": [{}],\n  \"use_sliding_window\": false,",
                     fmt::join(rotary, ", "));
}

std::string llama_config(const ModelConfig& config) {
  const auto& options = config.as<LlamaOptions>();
  const Kind kind = kind_of(options);
  const TransformerOptions model = transformer_options(options);
  std::string window;
  if (kind.type == "smollm3") window += no_rope_json(options);
  if (kind.type.starts_with("qwen"))
    window += fmt::format("\n  \"use_sliding_window\": {},", model.window > 0);
  if (windows_by_layer(kind.type)) window += "\n  \"max_window_layers\": 0,";
  if (kind.type != "llama" && kind.type != "olmo2" && kind.type != "smollm3") {
    window += fmt::format("\n  \"sliding_window\": {},",
                          model.window > 0 ? fmt::format("{}", model.window) : "null");
  }
  const HeadChoice& head = model.head;
  std::string architecture(kind.architecture);
  if (!head.is_language())
    architecture = head_architecture(
        architecture.substr(0, architecture.size() - std::string_view("ForCausalLM").size()), head);
  const std::string ending =
      head.is_language()
          ? "\n  \"pad_token_id\": null,"
          : fmt::format("\n  \"pad_token_id\": {},\n  \"classifier_dropout\": {},\n  {},",
                        options.pad_token, options.dropout, head_text(head));
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
  "rope_scaling": {},{}{}
  "attention_bias": {},
  "mlp_bias": false,
  "attention_dropout": 0.0,
  "bos_token_id": null,
  "eos_token_id": null,{}
  "tie_word_embeddings": {},
  "torch_dtype": "float32"
}}
)",
      kind.type, architecture, model.layers, model.hidden, model.heads, model.kv_heads,
      model.head_size, kind.type == "mixtral" ? model.experts.intermediate : model.intermediate,
      model.context, model.vocabulary, model.norm.epsilon, model.rope.base, rope_json(model.rope),
      window, experts_json(options, kind.type), options.attention_bias, ending, model.tied_head);
}

// Old files also hold the frequencies; files may contain a tied head besides the tokens.
std::optional<std::string> llama_plain_name(std::string_view hf, const ModelConfig& model) {
  if (hf.ends_with(".rotary_emb.inv_freq")) return {};
  const auto& options = model.as<LlamaOptions>();
  const bool no_head = options.tied_head || !head_choice(options).is_language();
  if (hf == "lm_head.weight" && no_head) return {};
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
void read_rope(const HfKeys& keys, std::string_view kind, LlamaOptions& model) {
  model.rope_theta = keys.number("rope_theta", kind == "smollm3"   ? 2e6
                                               : kind == "mixtral" ? 1e6
                                                                   : 1e4);
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
  if (type != "default" && kind == "phi3")  // whatever it is called, a LongRoPE
    rope.refuse("rope_type", "Phi-3's long contexts (LongRoPE) are not supported");
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

// The window of all layers. In Mistral and Mixtral all layers have it; in the others those in
// layer_types, or those from max_window_layers on.
std::int64_t window_of(const HfKeys& keys, std::string_view type, std::int64_t layers) {
  constexpr std::int64_t published_window = 4096, published_whole = 28, whole_of_dots = 62;
  const bool by_layer = windows_by_layer(type) && type != "qwen3_moe";  // whose key has no effect
  const bool if_given = type == "mixtral" || type == "phi3";
  const bool if_used = type.starts_with("qwen") || type == "smollm3";
  const bool has_window = type == "mistral" || type == "dots1" ||
                          (if_given && keys.find("sliding_window") != nullptr) ||
                          (if_used && keys.flag("use_sliding_window", false));
  const std::int64_t window = has_window ? keys.size_or("sliding_window", published_window) : 0;
  if (window < 0 || (window == 0 && has_window && keys.find("sliding_window") != nullptr))
    keys.refuse("sliding_window", "not 1 or more");
  const std::optional<std::int64_t> listed = whole_layers(keys, layers);
  std::int64_t whole = window > 0 ? 0 : layers;
  if (by_layer && window > 0)
    whole = listed.value_or(std::clamp<std::int64_t>(keys.has("max_window_layers")
                                                         ? keys.size("max_window_layers")
                                                     : type == "dots1" ? whole_of_dots
                                                                       : published_whole,
                                                     0, layers));
  if (type == "smollm3" && window > 0)
    keys.refuse("use_sliding_window", "which is not supported for this kind of model");
  if (if_given || if_used) keys.ignore("sliding_window");
  if (type == "qwen3_moe") keys.ignore("max_window_layers");
  if (by_layer) {
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

void read_layers(const HfKeys& keys, LlamaOptions& model) {
  model.experts_every = keys.size_or("decoder_sparse_step", 1);
  const Json* const dense = keys.find("mlp_only_layers");
  if (dense == nullptr) return;
  if (!dense->is_array() || !std::ranges::all_of(*dense, &Json::is_number_integer))
    keys.refuse("mlp_only_layers", "not a list of layers");
  model.dense_layers = dense->get<std::vector<std::int64_t>>();
}

void read_experts(const HfKeys& keys, std::string_view type, LlamaOptions& model) {
  if (type != "mixtral" && type != "qwen3_moe" && type != "dots1") return;
  const bool mixtral = type == "mixtral";
  model.experts = type == "dots1"
                      ? keys.size("n_routed_experts")
                      : keys.size_or(keys.has("num_experts") ? "num_experts" : "num_local_experts",
                                     mixtral ? 8 : 128);
  model.experts_per_token = type == "dots1" ? keys.size("num_experts_per_tok")
                                            : keys.size_or("num_experts_per_tok", mixtral ? 2 : 8);
  model.router = ops::RouterScore::softmax;
  if (mixtral) {
    model.router = ops::RouterScore::softmax_of_chosen;
    model.expert_intermediate = model.intermediate;
    return;
  }
  model.expert_intermediate =
      keys.size_or("moe_intermediate_size", type == "qwen3_moe" ? 768 : 1408);
  model.router_renormalize = keys.flag("norm_topk_prob", false);
  if (type == "qwen3_moe") return read_layers(keys, model);
  model.router = ops::RouterScore::sigmoid;
  model.router_scale = keys.number("routed_scaling_factor", 1.0);
  model.router_groups = keys.size_or("n_group", 1);
  model.router_groups_kept = keys.size_or("topk_group", 1);
  model.shared_intermediate = model.expert_intermediate * keys.size_or("n_shared_experts", 0);
  for (std::int64_t i = 0; i < keys.size_or("first_k_dense_replace", 0); ++i)
    model.dense_layers.push_back(i);
}

// SmolLM3: which layers have rotary positions.
std::int64_t read_unrotated(const HfKeys& keys, std::int64_t layers) {
  const std::int64_t every = keys.size_or("no_rope_layer_interval", 4);
  const Json* const rotary = keys.find("no_rope_layers");
  if (rotary == nullptr) return every;
  for (std::int64_t n = 1; n <= layers + 1; ++n) {
    bool fits = rotary->is_array() && std::ssize(*rotary) >= layers;
    for (std::int64_t i = 0; fits && i < layers; ++i)
      fits = (*rotary)[static_cast<std::size_t>(i)] == ((i + 1) % n == 0 ? 0 : 1);
    if (fits) return n > layers ? 0 : n;
  }
  keys.refuse("no_rope_layers", "not a 0 for every N-th layer and 1 for the others");
}

void read_llama(const HfKeys& keys, std::string_view type, ModelConfig& config) {
  config.family = llama_name;
  auto& model = config.as<LlamaOptions>();
  const bool biased = type == "llama" || type == "qwen3" || type == "smollm3" || type == "olmo2";
  constexpr std::int64_t qwen3_head_size = 128;
  const bool coarse = type == "phi3" || type == "olmo2" || type == "mixtral";
  model = {.layers = keys.size("num_hidden_layers"),
           .hidden = keys.size("hidden_size"),
           .heads = keys.size("num_attention_heads"),
           .kv_heads = keys.size_or("num_key_value_heads", 0),
           .head_size = keys.size_or("head_dim", type == "qwen3" ? qwen3_head_size : 0),
           .intermediate = keys.size("intermediate_size"),
           .context = keys.size("max_position_embeddings"),
           .vocabulary = keys.size("vocab_size"),
           .tied_head = keys.flag("tie_word_embeddings", type == "smollm3"),
           .norm_epsilon = keys.number("rms_norm_eps", coarse ? 1e-5 : 1e-6),
           .qkv_bias = type == "qwen2",
           .attention_bias = biased && keys.flag("attention_bias", false),
           .qk_norm = type == "qwen3" || type == "qwen3_moe" || type == "dots1",
           .qk_norm_whole = type == "olmo2",
           .norm_after = type == "olmo2"};
  expect_silu(keys, "our SwiGLU");
  read_head(keys, model);
  if (!head_choice(model).is_language())
    model.pad_token = keys.size_or("pad_token_id", type == "phi3"      ? 32000
                                                   : type == "smollm3" ? 128004
                                                   : type == "olmo2"   ? 1
                                                                       : 0);
  if (head_choice(model).of_tokens()) model.dropout = keys.number("classifier_dropout", 0.1);
  if (type == "qwen2") keys.ignore("attention_bias");
  if (type == "smollm3") model.unrotated_every = read_unrotated(keys, model.layers);
  if (type == "phi3") {
    model.dropout = keys.number("resid_pdrop", 0.0);
    keys.expect("embd_pdrop", model.dropout, "resid_pdrop, as our dropout is one value");
  }
  model.window = window_of(keys, type, model.layers);
  read_experts(keys, type, model);
  const std::int64_t every = std::max<std::int64_t>(1, model.experts_every);
  const auto dense = std::ranges::count_if(
      model.dense_layers, [&](std::int64_t layer) { return (layer + 1) % every == 0; });
  if (model.experts > 0)
    model.balance_loss =
        read_balance_loss(keys, model.experts_per_token, model.layers / every - dense);
  read_rope(keys, type, model);
}

void canonicalize_llama(ModelConfig& model) {
  auto& options = model.as<LlamaOptions>();
  const TransformerOptions meant = transformer_options(options);
  options.kv_heads = meant.kv_heads;
  options.head_size = meant.head_size;
  options.intermediate = meant.intermediate;
  options.rope_high_freq_factor = meant.rope.high_freq_factor;
  if (meant.experts.any()) {
    options.expert_intermediate = meant.experts.intermediate;
    if (options.router == ops::RouterScore::softmax && options.router_renormalize)
      options.router = ops::RouterScore::softmax_of_chosen;
    if (options.router == ops::RouterScore::softmax_of_chosen) options.router_renormalize = true;
    if (options.dense_layers.empty() && options.experts_every == 1)
      options.intermediate = meant.experts.intermediate;
    // They change no output.
    const LlamaOptions plain;
    options.balance_loss = plain.balance_loss;
    options.sequence_balance_loss = plain.sequence_balance_loss;
    options.router_z_loss = plain.router_z_loss;
    options.balance_rate = plain.balance_rate;
  }
  if (options.unrotated_every > options.layers) options.unrotated_every = 0;
  options.context = 0;
  options.pad_token = 0;
  if (!head_choice(options).is_language()) options.tied_head = false;  // it has no token table
  canonicalize_head(options);
}

}  // namespace

const Exchange& llama_exchange() {
  static constexpr auto types =
      std::to_array<std::string_view>({"llama", "mistral", "qwen2", "qwen3", "mixtral", "qwen3_moe",
                                       "dots1", "phi3", "smollm3", "olmo2"});
  static constexpr Exchange exchange{llama_names,
                                     llama_config,
                                     llama_plain_name,
                                     types,
                                     read_llama,
                                     canonicalize_llama,
                                     "model.embed_tokens.weight",
                                     "lm_head.weight"};
  return exchange;
}

}  // namespace trireme::hugging_face
