// SPDX-License-Identifier: Apache-2.0
#include "models/transformer/exchange.h"

#include <fmt/format.h>

namespace trireme::hugging_face {
namespace {

class DecoderNames {
 public:
  DecoderNames(const TransformerOptions& model, const ExpertNames& names)
      : model_(model),
        names_(names),
        padding_(padded_vocabulary(model.vocabulary) - model.vocabulary) {}

  std::vector<NamePair> all() {
    table("embedding.token.weight", "model.embed_tokens.weight");
    for (std::int64_t i = 0; i < model_.layers; ++i)
      block(fmt::format("blocks.{}.", i), fmt::format("model.layers.{}.", i),
            model_.of_layer(i).experts);
    vector("final_norm.weight", "model.norm.weight", model_.hidden);
    if (!model_.head.is_language()) {
      add("classifier.weight", {{"score.weight", {model_.head.outputs, model_.hidden}}});
      if (model_.head.of_tokens()) vector("classifier.bias", "score.bias", model_.head.outputs);
      return std::move(pairs_);
    }
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

  void mlp(const std::string& ours, const std::string& hf, std::int64_t wide) {
    const std::int64_t hidden = model_.hidden;
    fused(ours + "expand.weight",
          {{hf + "gate_proj.weight", {wide, hidden}}, {hf + "up_proj.weight", {wide, hidden}}},
          {hf + "gate_up_proj.weight", {2 * wide, hidden}});
    add(ours + "contract.weight", {{hf + "down_proj.weight", {hidden, wide}}});
  }

  void mixture(const std::string& ours, const std::string& hf, const ExpertOptions& experts) {
    const std::int64_t hidden = model_.hidden, wide = experts.intermediate, count = experts.count;
    const std::string router = hf + std::string(names_.router),
                      each = hf + std::string(names_.experts);
    add(ours + "router.weight", {{router + "weight", {count, hidden}}});
    if (experts.router_bias) vector(ours + "router.bias", router + "bias", count);
    add(ours + "router.load", {});  // of our last step
    pairs_.back().our_shape = {count};
    if (experts.choice_bias())
      vector(ours + "router.balance", router + "e_score_correction_bias", count);
    if (names_.stacked) {
      stack(ours + "experts.expand.", each + std::string(names_.gates), {count, hidden, 2 * wide});
      for (std::size_t i = pairs_.size() - 2; i < pairs_.size(); ++i)
        pairs_[i].interleaved = true;
      stack(ours + "experts.contract.", each + std::string(names_.contract), {count, wide, hidden});
      return;
    }
    std::vector<HfTensor> expand, contract;
    for (std::int64_t e = 0; e < count; ++e) {
      for (const std::string_view part : {names_.gates, names_.values})
        expand.push_back({fmt::format("{}{}.{}.weight", each, e, part), {wide, hidden}});
      contract.push_back({fmt::format("{}{}.{}.weight", each, e, names_.contract), {hidden, wide}});
    }
    fused(ours + "experts.expand.weight", std::move(expand),
          {each + "gate_up_proj", {count, 2 * wide, hidden}});
    fused(ours + "experts.contract.weight", std::move(contract),
          {each + "down_proj", {count, hidden, wide}});
    if (experts.shared_intermediate > 0)
      mlp(ours + "shared.", hf + std::string(names_.shared), experts.shared_intermediate);
  }
  void stack(const std::string& ours, const std::string& hf, const Shape& shape) {
    add(ours + "weight", {{hf, shape}});
    pairs_.back().transposed = true;
    add(ours + "bias", {{hf + "_bias", {shape[0], shape[2]}}});
  }
  void fused(std::string ours, std::vector<HfTensor> hf, const HfTensor& whole) {
    add(std::move(ours), std::move(hf));
    pairs_.back().our_shape = whole.shape;
    pairs_.back().fused = whole;
  }

  void block(const std::string& ours, const std::string& hf, const ExpertOptions& experts) {
    const std::int64_t hidden = model_.hidden;
    const std::int64_t queries = model_.heads * model_.head_size;
    const std::int64_t keys = model_.kv_heads * model_.head_size;
    const std::string attention = hf + "self_attn.";
    if (model_.pre_norms) vector(ours + "norm1.weight", hf + "input_layernorm.weight", hidden);
    fused(ours + "attention.qkv.weight",
          {{attention + "q_proj.weight", {queries, hidden}},
           {attention + "k_proj.weight", {keys, hidden}},
           {attention + "v_proj.weight", {keys, hidden}}},
          {attention + "qkv_proj.weight", {queries + 2 * keys, hidden}});
    if (model_.biases != Biases::none) {
      add(ours + "attention.qkv.bias", {{attention + "q_proj.bias", {queries}},
                                        {attention + "k_proj.bias", {keys}},
                                        {attention + "v_proj.bias", {keys}}});
    }
    if (model_.qk_norm || model_.qk_norm_whole) {
      const std::int64_t size = model_.head_size;
      vector(ours + "attention.query_norm.weight", attention + "q_norm.weight",
             model_.qk_norm ? size : queries);
      vector(ours + "attention.key_norm.weight", attention + "k_norm.weight",
             model_.qk_norm ? size : keys);
    }
    if (model_.sinks) vector(ours + "attention.sinks", attention + "sinks", model_.heads);
    add(ours + "attention.output.weight", {{attention + "o_proj.weight", {hidden, queries}}});
    if (model_.attention_output_bias())
      vector(ours + "attention.output.bias", attention + "o_proj.bias", hidden);
    const std::string after_attention = hf + "post_attention_layernorm.weight";
    if (model_.branch_norms) vector(ours + "attention.norm.weight", after_attention, hidden);
    if (model_.pre_norms)
      vector(ours + "norm2.weight",
             model_.branch_norms ? hf + "pre_feedforward_layernorm.weight" : after_attention,
             hidden);
    if (experts.any()) {
      mixture(ours + "mlp.", hf, experts);
    } else {
      mlp(ours + "mlp.", hf + "mlp.", model_.intermediate);
    }
    if (model_.branch_norms)
      vector(ours + "mlp.norm.weight", hf + "post_feedforward_layernorm.weight", hidden);
  }

  const TransformerOptions& model_;
  const ExpertNames& names_;
  std::int64_t padding_;
  std::vector<NamePair> pairs_;
};

}  // namespace

std::vector<NamePair> decoder_names(const TransformerOptions& model, const ExpertNames& experts) {
  return DecoderNames(model, experts).all();
}

}  // namespace trireme::hugging_face
