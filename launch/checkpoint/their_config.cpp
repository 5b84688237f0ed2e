// SPDX-License-Identifier: Apache-2.0
#include "launch/checkpoint/their_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "launch/checkpoint/their_keys.h"
#include "models/bert/bert.h"
#include "models/bert/bert_config.h"
#include "models/config.h"
#include "models/function_differences.h"
#include "models/gpt/gpt.h"
#include "models/gpt/gpt_config.h"
#include "models/llama/llama.h"
#include "models/llama/llama_config.h"
#include "models/resnet/resnet.h"
#include "models/resnet/resnet_config.h"
#include "models/vit/vit_config.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/config/rules/rules.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t size_limit = std::uint64_t{1} << 24;
constexpr std::array llama_types = {"llama", "mistral", "qwen2", "qwen3"};

ops::ActivationKind activation_of(const TheirKeys& keys, const char* key, const char* missing) {
  const std::string name = keys.text(key, missing);
  std::string known;
  for (const auto& named : hugging_face::activation_names) {
    if (named.name == name) return named.value;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", named.name);
  }
  keys.refuse(key, fmt::format("and models here have one of {}", known));
}

GptOptions gpt_of(const TheirKeys& keys) {
  GptOptions model{.layers = keys.size("n_layer"),
                   .hidden = keys.size("n_embd"),
                   .heads = keys.size("n_head"),
                   .context = keys.size("n_positions"),
                   .vocabulary = keys.size("vocab_size"),
                   .dropout = keys.number("resid_pdrop", 0.1),
                   .activation = activation_of(keys, "activation_function", "gelu_new")};
  keys.expect("layer_norm_epsilon", 1e-5, "our layer norm");
  keys.expect("tie_word_embeddings", true, "our head");
  keys.expect("n_inner", 4 * model.hidden, "our MLP");
  keys.ignore("embd_pdrop");
  keys.ignore("n_ctx");
  return model;
}

void read_scaling(const TheirKeys& keys, const TheirKeys& rope, const std::string& type,
                  LlamaOptions& model) {
  constexpr const char* learned = "original_max_position_embeddings";
  const auto scaling = value_named<ops::RopeScaling>(type);
  if (!scaling || *scaling == ops::RopeScaling::none)
    rope.refuse("rope_type", "and linear, llama3 and yarn are those that there are here");
  model.rope_scaling = *scaling;
  const bool yarn = *scaling == ops::RopeScaling::yarn;
  const bool by_contexts = yarn && rope.has("factor") && rope.find("factor") == nullptr;
  if (!by_contexts) model.rope_factor = rope.number("factor");
  if (*scaling == ops::RopeScaling::linear) return;
  model.rope_original_context = model.context;
  for (const TheirKeys* const object : {&rope, &keys})  // that beside the object comes first
    if (object->find(learned) != nullptr) model.rope_original_context = object->size(learned);
  if (by_contexts)
    model.rope_factor =
        static_cast<double>(model.context) / static_cast<double>(model.rope_original_context);
  if (!yarn) {
    model.rope_low_turns = rope.number("low_freq_factor");
    model.rope_high_turns = rope.number("high_freq_factor");
    return;
  }
  const auto or_published = [&](const char* key, double published) {
    const double value = rope.number(key, 0);
    return value == 0 ? published : value;
  };
  model.rope_low_turns = or_published("beta_slow", 1);
  model.rope_high_turns = or_published("beta_fast", 32);
  // One of both alone is not looked at.
  if (rope.number("mscale", 0) != 0 && rope.number("mscale_all_dim", 0) != 0)
    rope.refuse("mscale", "which our rotary positions lack");
  rope.ignore("mscale_all_dim");
}

// Before version 5 transformers had rope_theta beside rope_scaling, since then both in
// rope_parameters.
void read_rope(const TheirKeys& keys, LlamaOptions& model) {
  model.rope_theta = keys.number("rope_theta", 10000.0);
  keys.ignore("original_max_position_embeddings");
  const Json *const old = keys.find("rope_scaling"), *const now = keys.find("rope_parameters");
  const bool has_old = old != nullptr && !old->empty();
  if (has_old && now != nullptr && *old != *now)
    keys.refuse("rope_scaling", "and rope_parameters is another; take one out of the file");
  const char* const name = has_old ? "rope_scaling" : "rope_parameters";
  const Json* const object = has_old ? old : now;
  if (object == nullptr) return;
  if (!object->is_object()) keys.refuse(name, "not an object");
  const TheirKeys rope(*object, keys.path(), fmt::format("{}.", name));
  model.rope_theta = rope.number("rope_theta", model.rope_theta);
  const std::string type = rope.text("rope_type", rope.text("type", "default"));
  for (const char* const key : {"type", "original_max_position_embeddings", "finetuned"})
    rope.ignore(key);
  if (type != "default") read_scaling(keys, rope, type, model);
  rope.expect_nothing_else();
}

// How many layers attend to all tokens by layer_types; nothing where the key is missing.
std::optional<std::int64_t> whole_layers(const TheirKeys& keys, std::int64_t layers) {
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
    keys.refuse("layer_types", fmt::format("not a list of {} times full_attention or "
                                           "sliding_attention, which are those that there are here",
                                           layers));
  return whole;
}

// Of all layers. Mistral's have it all; those of Qwen by layer_types, or behind the first
// max_window_layers.
std::int64_t window_of(const TheirKeys& keys, std::string_view type, std::int64_t layers) {
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
    keys.refuse("layer_types", fmt::format("and the window of this file is {}",
                                           window > 0 ? fmt::to_string(window) : "none"));
  if (whole == 0 || whole == layers) return whole == 0 ? window : 0;
  keys.refuse(listed ? "layer_types" : "max_window_layers",
              fmt::format("so that {} of {} layers attend to all tokens and the others to {}; "
                          "models here have one window for all layers, or none",
                          whole, layers, window));
}

LlamaOptions llama_of(const TheirKeys& keys, std::string_view type) {
  const bool qwen = type.starts_with("qwen");
  constexpr std::int64_t mistral_heads = 8, qwen_heads = 32, qwen3_head_size = 128;
  LlamaOptions model{
      .layers = keys.size("num_hidden_layers"),
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
  return model;
}

// One number for both sides, or height and width.
template <typename Options>
void read_image_size(const TheirKeys& keys, Options& model) {
  const Json* const size = keys.find("image_size");
  if (size != nullptr && size->is_array() && size->size() == 2 && (*size)[0].is_number_integer() &&
      (*size)[1].is_number_integer()) {
    model.image_size = (*size)[0].get<std::int64_t>();
    model.image_width = (*size)[1].get<std::int64_t>();
  } else {
    model.image_size = keys.size("image_size");
  }
}

GeluForm gelu_of(const TheirKeys& keys) {
  const ops::ActivationKind kind = activation_of(keys, "hidden_act", "gelu");
  for (const auto& form : names_of(GeluForm{})) {
    if (activation_of(form.value) == kind) return form.value;
  }
  keys.refuse("hidden_act", "and this family has gelu, gelu_new and gelu_pytorch_tanh here");
}

// The id that hides tokens stands with their tokenizer; that of the published vocabularies is 103.
BertOptions bert_of(const TheirKeys& keys) {
  BertOptions model{.layers = keys.size("num_hidden_layers"),
                    .hidden = keys.size("hidden_size"),
                    .heads = keys.size("num_attention_heads"),
                    .intermediate = keys.size("intermediate_size"),
                    .context = keys.size("max_position_embeddings"),
                    .vocabulary = keys.size("vocab_size"),
                    .dropout = keys.number("hidden_dropout_prob", 0.1),
                    .norm_epsilon = keys.number("layer_norm_eps", 1e-12),
                    .gelu = gelu_of(keys),
                    .token_types = keys.size("type_vocab_size")};
  constexpr std::int64_t published_mask = 103;
  model.mask_token = keys.find("mask_token_id") != nullptr
                         ? keys.size("mask_token_id")
                         : std::min(published_mask, model.vocabulary - 1);
  keys.expect("tie_word_embeddings", true, "our head");
  return model;
}

// Two where nothing is said of them.
std::int64_t classes_of(const TheirKeys& keys) {
  const Json* const labels = keys.find("id2label");
  if (labels != nullptr && labels->is_object()) return static_cast<std::int64_t>(labels->size());
  return keys.find("num_labels") != nullptr ? keys.size("num_labels") : 2;
}

VitOptions vit_of(const TheirKeys& keys) {
  VitOptions model{.layers = keys.size("num_hidden_layers"),
                   .hidden = keys.size("hidden_size"),
                   .heads = keys.size("num_attention_heads"),
                   .intermediate = keys.size("intermediate_size"),
                   .dropout = keys.number("hidden_dropout_prob", 0.0),
                   .norm_epsilon = keys.number("layer_norm_eps", 1e-12),
                   .gelu = gelu_of(keys),
                   .patch = keys.size("patch_size"),
                   .channels = keys.size("num_channels"),
                   .classes = classes_of(keys)};
  read_image_size(keys, model);
  keys.expect("qkv_bias", true, "our attention");
  keys.ignore("encoder_stride");
  keys.ignore("tie_word_embeddings");
  return model;
}

std::vector<std::int64_t> sizes_of(const TheirKeys& keys, const char* key) {
  const Json* const list = keys.find(key);
  const bool right = list != nullptr && list->is_array() && !list->empty() &&
                     std::ranges::all_of(*list, [](const Json& item) {
                       return item.is_number_integer() && item >= 1 && item <= 1 << 20;
                     });
  if (!right) keys.refuse(key, "not a list of sizes");
  return list->get<std::vector<std::int64_t>>();
}

// Theirs reads pictures of any size and need not say which: 224 as published.
ResNetOptions resnet_of(const TheirKeys& keys) {
  const std::string type = keys.text("layer_type", "bottleneck");
  const auto block = value_named<ResNetBlockKind>(type);
  constexpr std::int64_t widest = 1 << 20;
  if (const std::int64_t width = keys.size("embedding_size"); width < 1 || width > widest)
    keys.refuse("embedding_size", "not 1 to 1048576");
  if (!block) keys.refuse("layer_type", "and basic and bottleneck are those that there are");
  ResNetOptions model{.block = *block,
                      .stages = sizes_of(keys, "depths"),
                      .width = keys.size("embedding_size"),
                      .stem = ResNetStemKind::imagenet,
                      .channels = keys.size("num_channels"),
                      .classes = classes_of(keys)};
  if (keys.find("image_size") != nullptr) read_image_size(keys, model);
  Json widths = Json::array();
  for (std::size_t s = 0; s < model.stages.size() && s < 8; ++s)
    widths.push_back((model.width << s) * (*block == ResNetBlockKind::bottleneck ? 4 : 1));
  if (keys.find("hidden_sizes") == nullptr) keys.refuse("hidden_sizes", "not a list of sizes");
  keys.expect("hidden_sizes", widths, "our ResNet of this embedding_size");
  keys.expect("hidden_act", "relu", "our ResNet");
  keys.expect("downsample_in_first_stage", false, "our ResNet");
  keys.expect("downsample_in_bottleneck", false, "our bottleneck, with its stride in the 3x3,");
  for (const char* const key :
       {"stage_names", "out_features", "out_indices", "tie_word_embeddings"})
    keys.ignore(key);
  return model;
}

Json read(const std::string& path) {
  try {
    Json object = parse_json(read_whole_file(path, size_limit, ExitCode::checkpoint));
    if (object.is_object()) return object;
    fail(ExitCode::checkpoint, "{}: is not a JSON object", path);
  } catch (const Json::exception& error) {
    fail(ExitCode::checkpoint, "{}: is not a JSON object: {}", path, error.what());
  }
}

}  // namespace

ModelConfig model_of_their_config(const std::string& path) {
  const Json object = read(path);
  const TheirKeys keys(object, path);
  const std::string type = keys.text("model_type");
  ModelConfig model;
  if (type == "gpt2") {
    model.family = gpt2_name;
    model.as<GptOptions>() = gpt_of(keys);
  } else if (std::ranges::find(llama_types, type) != llama_types.end()) {
    model.family = llama_name;
    model.as<LlamaOptions>() = llama_of(keys, type);
  } else if (type == "bert") {
    model.family = bert_name;
    model.as<BertOptions>() = bert_of(keys);
  } else if (type == "resnet") {
    model.family = resnet_name;
    model.as<ResNetOptions>() = resnet_of(keys);
  } else if (type == "vit") {
    model.family = vit_name;
    model.as<VitOptions>() = vit_of(keys);
  } else {
    fail(
        ExitCode::config,
        "{}: model_type is {}; weights of gpt2, llama, mistral, qwen2, qwen3, bert, vit and resnet "
        "models can be imported",
        path, type.empty() ? "missing" : fmt::format("\"{}\"", type));
  }
  keys.expect_nothing_else();
  // Values are held to the limits of our keys, and to the rules between them.
  Config config = default_config();
  config.model = model;
  config = parse_config(to_yaml(config), path + " as a config of ours", {});
  const Environment environment;
  const Provenance where;
  const config::Subject subject{key_table(), config, environment, where, Purpose::generate};
  subject.family().check(subject);
  return model;
}

void check_their_config(const std::string& path, const ModelConfig& model) {
  if (!std::filesystem::exists(path)) return;
  const auto differences = function_differences(model, model_of_their_config(path));
  if (differences.empty()) return;
  const auto& [key, ours, theirs] = differences.front();
  fail(ExitCode::config, "{}: describes a model with {}: {}, and the config has {}", path, key,
       theirs, ours);
}

}  // namespace trireme
