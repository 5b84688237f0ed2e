// SPDX-License-Identifier: Apache-2.0
#include "models/vit/vit.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "models/heads/head_exchange.h"
#include "models/images/image_config.h"
#include "models/transformer/exchange.h"
#include "runtime/base/error.h"

namespace trireme::hugging_face {
namespace {

class VitNames : NameList {
 public:
  explicit VitNames(const VitOptions& options)
      : options_(options), model_(transformer_options(options)) {}

  std::vector<NamePair> all() {
    const std::int64_t hidden = model_.hidden, patch = options_.patch, channels = options_.channels;
    const std::string prefix = options_.distillation_token ? "deit." : "vit.";
    const std::string embeddings = prefix + "embeddings.";
    add("embedding.patch.weight", embeddings + "patch_embeddings.projection.weight",
        {hidden, channels, patch, patch});
    pairs_.back().filters = true;
    pairs_.back().our_shape = {hidden, patch * patch * channels};
    add("embedding.patch.bias", embeddings + "patch_embeddings.projection.bias", {hidden});
    add("embedding.class_token", embeddings + "cls_token", {1, 1, hidden});
    pairs_.back().our_shape = {hidden};
    if (options_.distillation_token) {
      add("embedding.distillation_token", embeddings + "distillation_token", {1, 1, hidden});
      pairs_.back().our_shape = {hidden};
    }
    add("embedding.position.weight", embeddings + "position_embeddings",
        {1, model_.context, hidden});
    pairs_.back().our_shape = {model_.context, hidden};
    for (std::int64_t i = 0; i < model_.layers; ++i)
      block(fmt::format("blocks.{}.", i), fmt::format("{}encoder.layer.{}.", prefix, i));
    linear("final_norm", prefix + "layernorm", {hidden});
    linear("classifier", "classifier", {head_choice(options_).outputs, hidden});
    return std::move(pairs_);
  }

 private:
  void block(const std::string& ours, const std::string& hf) {
    const std::int64_t hidden = model_.hidden, wide = model_.intermediate;
    linear(ours + "norm1", hf + "layernorm_before", {hidden});
    qkv(ours + "attention.qkv", hf + "attention.attention.", hidden);
    linear(ours + "attention.output", hf + "attention.output.dense", {hidden, hidden});
    linear(ours + "norm2", hf + "layernorm_after", {hidden});
    linear(ours + "mlp.expand", hf + "intermediate.dense", {wide, hidden});
    linear(ours + "mlp.contract", hf + "output.dense", {hidden, wide});
  }

  const VitOptions& options_;
  TransformerOptions model_;
};

// Refuses options that ViTForImageClassification does not support.
void check_kind(const VitOptions& model) {
  if (model.pooling != Pooling::class_token)
    fail(ExitCode::config,
         "model.pooling: mean is not supported by Hugging Face's ViTForImageClassification, which "
         "reads the class token");
}

std::vector<NamePair> vit_names(const ModelConfig& config) {
  const auto& model = config.as<VitOptions>();
  check_kind(model);
  return VitNames(model).all();
}

std::string vit_config(const ModelConfig& config) {
  const auto& options = config.as<VitOptions>();
  check_kind(options);
  const TransformerOptions model = transformer_options(options);
  return fmt::format(
      R"({{
  "model_type": "{}",
  "architectures": ["{}ForImageClassification"],
  "num_hidden_layers": {},
  "hidden_size": {},
  "num_attention_heads": {},
  "intermediate_size": {},
  "hidden_act": "{}",
  "hidden_dropout_prob": {},
  "attention_probs_dropout_prob": 0.0,
  "layer_norm_eps": {},
  "qkv_bias": true,
  {},
  "patch_size": {},
  "num_channels": {},
  {},
  "torch_dtype": "float32"
}}
)",
      options.distillation_token ? "deit" : "vit", options.distillation_token ? "DeiT" : "ViT",
      model.layers, model.hidden, model.heads, model.intermediate,
      activation_name(activation_of(options.gelu)), options.dropout, options.norm_epsilon,
      image_size_text(options.image_size, options.width_of_images()), options.patch,
      options.channels, head_text(head_choice(options)));
}

// ViTModel's pooler does not affect the classifier. A distilled DeiT has two classifiers, of which
// transformers takes the mean: no model here.
std::optional<std::string> vit_plain_name(std::string_view hf, const ModelConfig& /*model*/) {
  for (const std::string_view beside :
       {"vit.pooler.", "deit.pooler.", "cls_classifier.", "distillation_classifier."})
    if (hf.starts_with(beside)) return {};
  return std::string(hf);
}

void read_vit(const HfKeys& keys, std::string_view type, ModelConfig& config) {
  config.family = vit_name;
  auto& model = config.as<VitOptions>();
  model = {.layers = keys.size("num_hidden_layers"),
           .hidden = keys.size("hidden_size"),
           .heads = keys.size("num_attention_heads"),
           .intermediate = keys.size("intermediate_size"),
           .dropout = keys.number("hidden_dropout_prob", 0.0),
           .norm_epsilon = keys.number("layer_norm_eps", 1e-12),
           .gelu = read_gelu(keys),
           .patch = keys.size_or("patch_size", 16),
           .distillation_token = type == "deit",
           .channels = keys.size_or("num_channels", 3)};
  read_head(keys, model);
  const auto [height, width] = image_sides_of(keys);
  model.image_size = height;
  model.image_width = width;
  keys.expect("qkv_bias", true, "our attention");
  keys.ignore("encoder_stride");
  keys.ignore("tie_word_embeddings");
}

void canonicalize_vit(ModelConfig& model) {
  auto& options = model.as<VitOptions>();
  options.intermediate = transformer_options(options).intermediate;
  options.image_width = options.width_of_images();
  canonicalize_head(options);
}

}  // namespace

const Exchange& vit_exchange() {
  static constexpr std::array<std::string_view, 2> types{"vit", "deit"};
  static constexpr Exchange exchange{
      vit_names, vit_config, vit_plain_name, types, read_vit, canonicalize_vit, "", ""};
  return exchange;
}

}  // namespace trireme::hugging_face
