// SPDX-License-Identifier: Apache-2.0
#include "models/gpt/gpt.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "models/transformer/exchange.h"
#include "models/transformer/hf_keys.h"

namespace trireme::hugging_face {
namespace {

enum class Scope : std::uint8_t { before_blocks, block, after_blocks };

// A row of the table; "{}" is the block number.
struct Row {
  Scope scope;
  std::string_view ours, hf;
  bool transposed;
};
constexpr std::array rows = {
    Row{Scope::before_blocks, "embedding.token.weight", "wte.weight", false},
    Row{Scope::before_blocks, "embedding.position.weight", "wpe.weight", false},
    Row{Scope::block, "blocks.{}.norm1.weight", "h.{}.ln_1.weight", false},
    Row{Scope::block, "blocks.{}.norm1.bias", "h.{}.ln_1.bias", false},
    Row{Scope::block, "blocks.{}.attention.qkv.weight", "h.{}.attn.c_attn.weight", true},
    Row{Scope::block, "blocks.{}.attention.qkv.bias", "h.{}.attn.c_attn.bias", false},
    Row{Scope::block, "blocks.{}.attention.output.weight", "h.{}.attn.c_proj.weight", true},
    Row{Scope::block, "blocks.{}.attention.output.bias", "h.{}.attn.c_proj.bias", false},
    Row{Scope::block, "blocks.{}.norm2.weight", "h.{}.ln_2.weight", false},
    Row{Scope::block, "blocks.{}.norm2.bias", "h.{}.ln_2.bias", false},
    Row{Scope::block, "blocks.{}.mlp.expand.weight", "h.{}.mlp.c_fc.weight", true},
    Row{Scope::block, "blocks.{}.mlp.expand.bias", "h.{}.mlp.c_fc.bias", false},
    Row{Scope::block, "blocks.{}.mlp.contract.weight", "h.{}.mlp.c_proj.weight", true},
    Row{Scope::block, "blocks.{}.mlp.contract.bias", "h.{}.mlp.c_proj.bias", false},
    Row{Scope::after_blocks, "final_norm.weight", "ln_f.weight", false},
    Row{Scope::after_blocks, "final_norm.bias", "ln_f.bias", false},
};

// In Hugging Face's form: (in, out).
Shape shape_of(std::string_view hf, const GptOptions& model) {
  const std::int64_t c = model.hidden;
  if (hf == "wte.weight") return {model.vocabulary, c};
  if (hf == "wpe.weight") return {model.context, c};
  if (hf.ends_with("c_attn.weight")) return {c, 3 * c};
  if (hf.ends_with("c_attn.bias")) return {3 * c};
  if (hf.ends_with("c_fc.weight")) return {c, 4 * c};
  if (hf.ends_with("c_fc.bias")) return {4 * c};
  if (hf.ends_with("mlp.c_proj.weight")) return {4 * c, c};
  if (hf.ends_with("attn.c_proj.weight")) return {c, c};
  return {c};
}

std::vector<NamePair> gpt2_names(const ModelConfig& config) {
  const auto& model = config.as<GptOptions>();
  std::vector<NamePair> pairs;
  const auto add = [&](Scope scope, std::int64_t block) {
    for (const Row& row : rows) {
      if (row.scope != scope) continue;
      const bool tokens = row.hf == "wte.weight";
      pairs.push_back({fmt::format(fmt::runtime(row.ours), block),
                       {{fmt::format(fmt::runtime(row.hf), block), shape_of(row.hf, model)}},
                       row.transposed,
                       tokens ? padded_vocabulary(model.vocabulary) - model.vocabulary : 0});
    }
  };
  add(Scope::before_blocks, 0);
  for (std::int64_t block = 0; block < model.layers; ++block)
    add(Scope::block, block);
  add(Scope::after_blocks, 0);
  return pairs;
}

std::string gpt2_config(const ModelConfig& config) {
  const auto& model = config.as<GptOptions>();
  return fmt::format(
      R"({{
  "model_type": "gpt2",
  "architectures": ["GPT2LMHeadModel"],
  "n_layer": {},
  "n_head": {},
  "n_embd": {},
  "n_positions": {},
  "n_ctx": {},
  "vocab_size": {},
  "activation_function": "{}",
  "layer_norm_epsilon": 1e-05,
  "attn_pdrop": 0.0,
  "embd_pdrop": {},
  "resid_pdrop": {},
  "bos_token_id": null,
  "eos_token_id": null,
  "tie_word_embeddings": true,
  "torch_dtype": "float32"
}}
)",
      model.layers, model.heads, model.hidden, model.context, model.context, model.vocabulary,
      activation_name(model.activation), model.dropout, model.dropout);
}

// Masks are not parameters; the head is tied to the tokens.
std::optional<std::string> gpt2_plain_name(std::string_view hf, const ModelConfig& /*model*/) {
  constexpr std::string_view prefix = "transformer.";
  if (hf.starts_with(prefix)) hf.remove_prefix(prefix.size());
  const bool mask = hf.ends_with(".attn.bias") || hf.ends_with(".attn.masked_bias");
  if (mask || hf == "lm_head.weight") return {};
  return std::string(hf);
}

void read_gpt2(const HfKeys& keys, std::string_view /*type*/, ModelConfig& config) {
  config.family = gpt2_name;
  auto& model = config.as<GptOptions>();
  model = {.layers = keys.size("n_layer"),
           .hidden = keys.size("n_embd"),
           .heads = keys.size("n_head"),
           .context = keys.size("n_positions"),
           .vocabulary = keys.size("vocab_size"),
           .dropout = keys.number("resid_pdrop", 0.1),
           .activation = read_activation(keys, "activation_function", "gelu_new")};
  keys.expect("layer_norm_epsilon", 1e-5, "our layer norm");
  keys.expect("tie_word_embeddings", true, "our head");
  keys.expect("n_inner", 4 * model.hidden, "our MLP");
  if (keys.number("embd_pdrop", 0.1) != model.dropout)
    keys.refuse("embd_pdrop", fmt::format("but resid_pdrop is {}, and the dropout of models here "
                                          "is one value; give both the same in the file",
                                          model.dropout));
  keys.ignore("n_ctx");
}

}  // namespace

const Exchange& gpt2_exchange() {
  static constexpr std::array<std::string_view, 1> types{"gpt2"};
  static constexpr Exchange exchange{gpt2_names, gpt2_config, gpt2_plain_name, types,
                                     read_gpt2,  nullptr,     "wte.weight",    "lm_head.weight"};
  return exchange;
}

}  // namespace trireme::hugging_face
