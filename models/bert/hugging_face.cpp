// SPDX-License-Identifier: Apache-2.0
#include "models/bert/bert.h"

#include <array>
#include <nlohmann/json.hpp>

#include "models/heads/head_exchange.h"
#include "models/transformer/exchange.h"
#include "models/transformer/hf_keys.h"
#include "runtime/base/error.h"

namespace trireme::hugging_face {
namespace {

bool is_roberta(const ModelConfig& config) {
  return config.as<BertOptions>().position_offset > 0;
}

class BertNames : NameList {
 public:
  explicit BertNames(const BertOptions& options)
      : options_(options),
        model_(transformer_options(options)),
        padding_(padded_vocabulary(model_.vocabulary) - model_.vocabulary) {}

  std::vector<NamePair> all() {
    const std::int64_t hidden = model_.hidden;
    const bool roberta = options_.position_offset > 0;
    const std::string prefix = roberta ? "roberta." : "bert.", embeddings = prefix + "embeddings.";
    const std::string head = roberta ? "lm_head." : "cls.predictions.";
    add("embedding.token.weight", embeddings + "word_embeddings.weight",
        {model_.vocabulary, hidden});
    pairs_.back().padding_rows = padding_;
    add("embedding.position.weight", embeddings + "position_embeddings.weight",
        {options_.position_offset + model_.context, hidden});
    add("embedding.type.weight", embeddings + "token_type_embeddings.weight",
        {options_.token_types, hidden});
    linear("embedding.norm", embeddings + "LayerNorm", {hidden});
    for (std::int64_t i = 0; i < model_.layers; ++i)
      block(fmt::format("blocks.{}.", i), fmt::format("{}encoder.layer.{}.", prefix, i));
    if (!model_.head.is_language()) {
      const bool pools = !model_.head.of_tokens();
      if (pools)
        linear("pooler", roberta ? "classifier.dense" : "bert.pooler.dense", {hidden, hidden});
      linear("classifier", roberta && pools ? "classifier.out_proj" : "classifier",
             {model_.head.outputs, hidden});
      return std::move(pairs_);
    }
    linear("transform", head + (roberta ? "dense" : "transform.dense"), {hidden, hidden});
    linear("final_norm", head + (roberta ? "layer_norm" : "transform.LayerNorm"), {hidden});
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
  const bool roberta = is_roberta(config), language = model.head.is_language();
  if (roberta && language && options.gelu != GeluForm::exact)
    fail(
        ExitCode::config,
        "model.gelu: tanh with model.position_offset: Hugging Face's RoBERTa has the exact GELU in "
        "its head");
  const std::string head =
      language ? fmt::format("\"mask_token_id\": {}", options.mask_token) : head_text(model.head);
  const std::string kind = roberta ? "Roberta" : "Bert";
  return fmt::format(
      R"({{
  "model_type": "{}",
  "architectures": ["{}"],
  "num_hidden_layers": {},
  "hidden_size": {},
  "num_attention_heads": {},
  "intermediate_size": {},
  "max_position_embeddings": {},
  "vocab_size": {},
  "type_vocab_size": {},
  {},
  "hidden_act": "{}",
  "hidden_dropout_prob": {},
  "attention_probs_dropout_prob": 0.0,
  "layer_norm_eps": {},
  "pad_token_id": {},
  "tie_word_embeddings": true,
  "torch_dtype": "float32"
}}
)",
      roberta ? "roberta" : "bert",
      language ? kind + "ForMaskedLM" : head_architecture(kind, model.head), model.layers,
      model.hidden, model.heads, model.intermediate, options.position_offset + model.context,
      model.vocabulary, options.token_types, head, activation_name(activation_of(options.gelu)),
      options.dropout, options.norm_epsilon,
      roberta    ? fmt::to_string(options.position_offset - 1)
      : language ? "null"
                 : fmt::to_string(options.pad_token));
}

// The decoder is the token table, whose bias appears twice in old files; the pooler and the head
// for sentence pairs do not affect the tokens.
std::optional<std::string> bert_plain_name(std::string_view hf, const ModelConfig& model) {
  const HeadChoice head = head_choice(model.as<BertOptions>());
  const bool pools = !head.is_language() && !head.of_tokens();
  for (const std::string_view beside :
       {"cls.predictions.decoder.", "lm_head.decoder.", "roberta.pooler.", "cls.seq_relationship."})
    if (hf.starts_with(beside)) return {};
  if (hf.starts_with("bert.pooler.") && !pools) return {};
  if (hf.ends_with("embeddings.position_ids")) return {};
  std::string plain(hf);  // before 2019 the norms' parameters were gamma and beta
  if (hf.ends_with(".LayerNorm.gamma")) return plain.substr(0, plain.size() - 5) + "weight";
  if (hf.ends_with(".LayerNorm.beta")) return plain.substr(0, plain.size() - 4) + "bias";
  return plain;
}

// The mask token's id is in their tokenizer; in the published vocabularies it is 103.
void read_bert(const HfKeys& keys, std::string_view type, ModelConfig& config) {
  config.family = bert_name;
  auto& model = config.as<BertOptions>();
  // RoBERTa counts positions from behind that of its padding token.
  const std::int64_t offset = type == "bert" ? 0 : keys.size_or("pad_token_id", 1) + 1;
  model = {.layers = keys.size("num_hidden_layers"),
           .hidden = keys.size("hidden_size"),
           .heads = keys.size("num_attention_heads"),
           .intermediate = keys.size("intermediate_size"),
           .context = keys.size("max_position_embeddings") - offset,
           .vocabulary = keys.size("vocab_size"),
           .dropout = keys.number("hidden_dropout_prob", 0.1),
           .position_offset = offset,
           .norm_epsilon = keys.number("layer_norm_eps", 1e-12),
           .gelu = read_gelu(keys),
           .token_types = keys.size_or("type_vocab_size", 2)};
  read_head(keys, model);
  model.pad_token = keys.size_or("pad_token_id", type == "bert" ? 0 : 1);
  constexpr std::int64_t published_mask = 103;
  model.mask_token = keys.find("mask_token_id") != nullptr
                         ? keys.size("mask_token_id")
                         : std::min(published_mask, model.vocabulary - 1);
  keys.expect("tie_word_embeddings", true, "our head");
  if (type != "bert" && head_choice(model).is_language())
    keys.expect("hidden_act", "gelu", "RoBERTa's head");
}

void canonicalize_bert(ModelConfig& model) {
  auto& options = model.as<BertOptions>();
  options.intermediate = transformer_options(options).intermediate;
  options.mask_token = 1;
  options.pad_token = 0;
  canonicalize_head(options);
}

std::pair<std::string_view, std::string_view> tied_of(const ModelConfig& model) {
  if (is_roberta(model))
    return {"roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight"};
  return {"bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"};
}

}  // namespace

const Exchange& bert_exchange() {
  static constexpr std::array<std::string_view, 4> types{"bert", "roberta", "xlm-roberta",
                                                         "camembert"};
  static constexpr Exchange exchange{.names = bert_names,
                                     .config_json = bert_config,
                                     .plain_name = bert_plain_name,
                                     .types = types,
                                     .read = read_bert,
                                     .canonicalize = canonicalize_bert,
                                     .tied = tied_of};
  return exchange;
}

}  // namespace trireme::hugging_face
