// SPDX-License-Identifier: Apache-2.0
#include "models/llama/hugging_face.h"

#include <fmt/format.h>

#include "models/llama/llama.h"
#include "runtime/base/error.h"

namespace trireme::hugging_face {
namespace {

class Names {
 public:
  explicit Names(const TransformerOptions& model)
      : model_(model), padding_(padded_vocabulary(model.vocabulary) - model.vocabulary) {}

  std::vector<NamePair> all() {
    table("embedding.token.weight", "model.embed_tokens.weight");
    for (std::int64_t i = 0; i < model_.layers; ++i)
      block(fmt::format("blocks.{}.", i), fmt::format("model.layers.{}.", i));
    vector("final_norm.weight", "model.norm.weight", model_.hidden);
    if (!model_.tied_head) table("head.weight", "lm_head.weight");
    return std::move(pairs_);
  }

 private:
  void add(std::string ours, std::vector<TheirTensor> theirs) {
    pairs_.push_back({.ours = std::move(ours), .theirs = std::move(theirs)});
  }
  void table(std::string ours, std::string theirs) {
    add(std::move(ours), {{std::move(theirs), {model_.vocabulary, model_.hidden}}});
    pairs_.back().padding_rows = padding_;
  }
  void vector(std::string ours, std::string theirs, std::int64_t count) {
    add(std::move(ours), {{std::move(theirs), {count}}});
  }

  void block(const std::string& ours, const std::string& theirs) {
    const std::int64_t hidden = model_.hidden, wide = model_.intermediate;
    const std::int64_t queries = model_.heads * model_.head_size;
    const std::int64_t keys = model_.key_heads * model_.head_size;
    const std::string attention = theirs + "self_attn.";
    vector(ours + "norm1.weight", theirs + "input_layernorm.weight", hidden);
    add(ours + "attention.qkv.weight", {{attention + "q_proj.weight", {queries, hidden}},
                                        {attention + "k_proj.weight", {keys, hidden}},
                                        {attention + "v_proj.weight", {keys, hidden}}});
    if (model_.biases != Biases::none) {
      add(ours + "attention.qkv.bias", {{attention + "q_proj.bias", {queries}},
                                        {attention + "k_proj.bias", {keys}},
                                        {attention + "v_proj.bias", {keys}}});
    }
    if (model_.qk_norm) {
      vector(ours + "attention.query_norm.weight", attention + "q_norm.weight", model_.head_size);
      vector(ours + "attention.key_norm.weight", attention + "k_norm.weight", model_.head_size);
    }
    add(ours + "attention.output.weight", {{attention + "o_proj.weight", {hidden, queries}}});
    vector(ours + "norm2.weight", theirs + "post_attention_layernorm.weight", hidden);
    add(ours + "mlp.expand.weight", {{theirs + "mlp.gate_proj.weight", {wide, hidden}},
                                     {theirs + "mlp.up_proj.weight", {wide, hidden}}});
    add(ours + "mlp.contract.weight", {{theirs + "mlp.down_proj.weight", {hidden, wide}}});
  }

  const TransformerOptions& model_;
  std::int64_t padding_;
  std::vector<NamePair> pairs_;
};

std::vector<NamePair> llama_names(const ModelConfig& config) {
  return Names(transformer_options(config.as<LlamaOptions>())).all();
}

struct Kind {
  std::string_view type, architecture;
};

Kind kind_of(const LlamaOptions& model) {
  if (model.attention_soft_cap > 0)
    fail(ExitCode::config,
         "model.attention_soft_cap: {} has no form in Hugging Face's Llama, Mistral and Qwen",
         model.attention_soft_cap);
  if (model.qk_norm && model.qkv_bias)
    fail(ExitCode::config,
         "model.qk_norm and model.qkv_bias: Hugging Face's libraries have a kind for either, none "
         "for both");
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
          rope.factor, rope.low_turns, rope.high_turns, rope.original_context);
    case ops::RopeScaling::yarn:
      return fmt::format(R"({{"rope_type": "yarn", "factor": {}, "beta_slow": {}, "beta_fast": {},)"
                         R"( "original_max_position_embeddings": {}}})",
                         rope.factor, rope.low_turns, rope.high_turns, rope.original_context);
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
      kind.type, kind.architecture, model.layers, model.hidden, model.heads, model.key_heads,
      model.head_size, model.intermediate, model.context, model.vocabulary, model.norm.epsilon,
      model.rope.base, rope_json(model.rope), window, model.tied_head);
}

// Old files hold the frequencies too; a tied head may stand beside the tokens.
std::optional<std::string> llama_plain_name(std::string_view theirs, const ModelConfig& model) {
  if (theirs.ends_with(".rotary_emb.inv_freq")) return {};
  if (theirs == "lm_head.weight" && model.as<LlamaOptions>().tied_head) return {};
  return std::string(theirs);
}

}  // namespace

const Exchange& llama_exchange() {
  static constexpr Exchange exchange{llama_names, llama_config, llama_plain_name,
                                     "model.embed_tokens.weight", "lm_head.weight"};
  return exchange;
}

}  // namespace trireme::hugging_face
