// SPDX-License-Identifier: Apache-2.0
#include "models/transformer/exchange.h"

#include <fmt/format.h>

namespace trireme::hugging_face {
namespace {

class DecoderNames {
 public:
  explicit DecoderNames(const TransformerOptions& model)
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
  void add(std::string ours, std::vector<HfTensor> hf) {
    pairs_.push_back({.ours = std::move(ours), .hf = std::move(hf)});
  }
  void table(std::string ours, std::string hf) {
    add(std::move(ours), {{std::move(hf), {model_.vocabulary, model_.hidden}}});
    pairs_.back().padding_rows = padding_;
  }
  void vector(std::string ours, std::string hf, std::int64_t count) {
    add(std::move(ours), {{std::move(hf), {count}}});
  }

  void block(const std::string& ours, const std::string& hf) {
    const std::int64_t hidden = model_.hidden, wide = model_.intermediate;
    const std::int64_t queries = model_.heads * model_.head_size;
    const std::int64_t keys = model_.kv_heads * model_.head_size;
    const std::string attention = hf + "self_attn.";
    vector(ours + "norm1.weight", hf + "input_layernorm.weight", hidden);
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
    const std::string after_attention = hf + "post_attention_layernorm.weight";
    if (model_.branch_norms) vector(ours + "attention.norm.weight", after_attention, hidden);
    vector(ours + "norm2.weight",
           model_.branch_norms ? hf + "pre_feedforward_layernorm.weight" : after_attention, hidden);
    add(ours + "mlp.expand.weight", {{hf + "mlp.gate_proj.weight", {wide, hidden}},
                                     {hf + "mlp.up_proj.weight", {wide, hidden}}});
    add(ours + "mlp.contract.weight", {{hf + "mlp.down_proj.weight", {hidden, wide}}});
    if (model_.branch_norms)
      vector(ours + "mlp.norm.weight", hf + "post_feedforward_layernorm.weight", hidden);
  }

  const TransformerOptions& model_;
  std::int64_t padding_;
  std::vector<NamePair> pairs_;
};

}  // namespace

std::vector<NamePair> decoder_names(const TransformerOptions& model) {
  return DecoderNames(model).all();
}

}  // namespace trireme::hugging_face
