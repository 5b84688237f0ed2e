// SPDX-License-Identifier: Apache-2.0
#include "models/bert/bert.h"

#include <array>
#include <nlohmann/json.hpp>

#include "models/transformer/exchange.h"
#include "models/transformer/hf_keys.h"

namespace trireme::hugging_face {
namespace {

class BertNames : NameList {
 public:
  explicit BertNames(const BertOptions& options)
      : options_(options),
        model_(transformer_options(options)),
        padding_(padded_vocabulary(model_.vocabulary) - model_.vocabulary) {}

  std::vector<NamePair> all() {
    const std::int64_t hidden = model_.hidden;
    const std::string embeddings = "bert.embeddings.", head = "cls.predictions.";
    add("embedding.token.weight", embeddings + "word_embeddings.weight",
        {model_.vocabulary, hidden});
    pairs_.back().padding_rows = padding_;
    add("embedding.position.weight", embeddings + "position_embeddings.weight",
        {model_.context, hidden});
    add("embedding.type.weight", embeddings + "token_type_embeddings.weight",
        {options_.token_types, hidden});
    linear("embedding.norm", embeddings + "LayerNorm", {hidden});
    for (std::int64_t i = 0; i < model_.layers; ++i)
      block(fmt::format("blocks.{}.", i), fmt::format("bert.encoder.layer.{}.", i));
    linear("transform", head + "transform.dense", {hidden, hidden});
    linear("final_norm", head + "transform.LayerNorm", {hidden});
    add("head.bias", head + "bias", {model_.vocabulary});
    pairs_.back().padding_rows = padding_;
    return std::move(pairs_);
  }

 private:
  void block(const std::string& ours, const std::string& hf) {
    const std::int64_t hidden = model_.hidden, wide = model_.intermediate;
    qkv(ours + "attention.qkv", hf + "attention.self.", hidden);
    linear(ours + "attention.output", hf + "attention.output.dense", {hidden, hidden});
    linear(ours + "norm1", hf + "attention.output.LayerNorm", {hidden});
    linear(ours + "mlp.expand", hf + "intermediate.dense", {wide, hidden});
    linear(ours + "mlp.contract", hf + "output.dense", {hidden, wide});
    linear(ours + "norm2", hf + "output.LayerNorm", {hidden});
  }

  const BertOptions& options_;
  TransformerOptions model_;
  std::int64_t padding_;
};

std::vector<NamePair> bert_names(const ModelConfig& config) {
  return BertNames(config.as<BertOptions>()).all();
}

std::string bert_config(const ModelConfig& config) {
  const auto& options = config.as<BertOptions>();
  const TransformerOptions model = transformer_options(options);
  return fmt::format(
      R"({{
  "model_type": "bert",
  "architectures": ["BertForMaskedLM"],
  "num_hidden_layers": {},
  "hidden_size": {},
  "num_attention_heads": {},
  "intermediate_size": {},
  "max_position_embeddings": {},
  "vocab_size": {},
  "type_vocab_size": {},
  "mask_token_id": {},
  "hidden_act": "{}",
  "hidden_dropout_prob": {},
  "attention_probs_dropout_prob": 0.0,
  "layer_norm_eps": {},
  "pad_token_id": null,
  "tie_word_embeddings": true,
  "torch_dtype": "float32"
}}
)",
      model.layers, model.hidden, model.heads, model.intermediate, model.context, model.vocabulary,
      options.token_types, options.mask_token, activation_name(activation_of(options.gelu)),
      options.dropout, options.norm_epsilon);
}

// The decoder is the token table, whose bias appears twice in old files; the pooler and the head
// for sentence pairs do not affect the tokens.
std::optional<std::string> bert_plain_name(std::string_view hf, const ModelConfig& /*model*/) {
  const bool copy = hf.starts_with("cls.predictions.decoder.");
  const bool beside = hf.starts_with("bert.pooler.") || hf.starts_with("cls.seq_relationship.");
  if (copy || beside || hf == "bert.embeddings.position_ids") return {};
  std::string plain(hf);  // before 2019 the norms' parameters were gamma and beta
  if (hf.ends_with(".LayerNorm.gamma")) return plain.substr(0, plain.size() - 5) + "weight";
  if (hf.ends_with(".LayerNorm.beta")) return plain.substr(0, plain.size() - 4) + "bias";
  return plain;
}

// The mask token's id is in their tokenizer; in the published vocabularies it is 103.
void read_bert(const HfKeys& keys, std::string_view /*type*/, ModelConfig& config) {
  config.family = bert_name;
  auto& model = config.as<BertOptions>();
  model = {.layers = keys.size("num_hidden_layers"),
           .hidden = keys.size("hidden_size"),
           .heads = keys.size("num_attention_heads"),
           .intermediate = keys.size("intermediate_size"),
           .context = keys.size("max_position_embeddings"),
           .vocabulary = keys.size("vocab_size"),
           .dropout = keys.number("hidden_dropout_prob", 0.1),
           .norm_epsilon = keys.number("layer_norm_eps", 1e-12),
           .gelu = read_gelu(keys),
           .token_types = keys.size("type_vocab_size")};
  constexpr std::int64_t published_mask = 103;
  model.mask_token = keys.find("mask_token_id") != nullptr
                         ? keys.size("mask_token_id")
                         : std::min(published_mask, model.vocabulary - 1);
  keys.expect("tie_word_embeddings", true, "our head");
}

void spell_bert(ModelConfig& model) {
  auto& options = model.as<BertOptions>();
  options.intermediate = transformer_options(options).intermediate;
  options.mask_token = 1;
}

}  // namespace

const Exchange& bert_exchange() {
  static constexpr std::array<std::string_view, 1> types{"bert"};
  static constexpr Exchange exchange{bert_names,
                                     bert_config,
                                     bert_plain_name,
                                     types,
                                     read_bert,
                                     spell_bert,
                                     "bert.embeddings.word_embeddings.weight",
                                     "cls.predictions.decoder.weight"};
  return exchange;
}

}  // namespace trireme::hugging_face
