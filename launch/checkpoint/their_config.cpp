// SPDX-License-Identifier: Apache-2.0
#include "launch/checkpoint/their_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/bert/bert.h"
#include "models/bert/bert_config.h"
#include "models/config.h"
#include "models/gpt/gpt.h"
#include "models/gpt/gpt_config.h"
#include "models/llama/llama.h"
#include "models/llama/llama_config.h"
#include "models/resnet/resnet.h"
#include "models/resnet/resnet_config.h"
#include "models/vit/vit_config.h"
#include "runtime/base/file.h"
#include "runtime/config/rules/rules.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t size_limit = std::uint64_t{1} << 24;
constexpr std::array llama_types = {"llama", "mistral", "qwen2", "qwen3"};

// The keys of one object of the file.
class Keys {
 public:
  Keys(const Json& object, std::string path, std::string where = "")
      : object_(object), path_(std::move(path)), where_(std::move(where)) {}

  // Present, and not null.
  [[nodiscard]] const Json* find(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  [[nodiscard]] std::string text(const char* key, const std::string& otherwise = "") const {
    const Json* const value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_string()) refuse(key, "not a text");
    return value->get<std::string>();
  }
  [[nodiscard]] bool flag(const char* key, bool otherwise) const {
    const Json* const value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) refuse(key, "neither true nor false");
    return value->get<bool>();
  }
  [[nodiscard]] double number(const char* key, double otherwise) const {
    const Json* const value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_number()) refuse(key, "not a number");
    return value->get<double>();
  }
  // Raises where it is missing.
  [[nodiscard]] std::int64_t size(const char* key) const {
    const Json* const value = find(key);
    if (value == nullptr || !value->is_number_integer()) refuse(key, "not a number");
    return value->get<std::int64_t>();
  }
  // 0 where it is missing.
  [[nodiscard]] std::int64_t size_or_none(const char* key) const {
    return find(key) == nullptr ? 0 : size(key);
  }
  // Where it is there it must have this value.
  void expect(const char* key, const Json& wanted, std::string_view ours) const {
    const Json* const value = find(key);
    if (value != nullptr && *value != wanted)
      fail(ExitCode::config, "{}: {}{} is {}, {} needs {}", path_, where_, key, value->dump(), ours,
           wanted.dump());
  }
  [[noreturn]] void refuse(const char* key, std::string_view what) const {
    const auto found = object_.find(key);
    fail(ExitCode::config, "{}: {}{} is {}, {}; give --config", path_, where_, key,
         found == object_.end() ? "missing" : found->dump(), what);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  const Json& object_;
  std::string path_, where_;
};

GptOptions gpt_of(const Keys& keys) {
  GptOptions model{.layers = keys.size("n_layer"),
                   .hidden = keys.size("n_embd"),
                   .heads = keys.size("n_head"),
                   .context = keys.size("n_positions"),
                   .vocabulary = keys.size("vocab_size")};
  keys.expect("activation_function", "gelu_new", "our GELU");
  keys.expect("layer_norm_epsilon", 1e-5, "our layer norm");
  keys.expect("tie_word_embeddings", true, "our head");
  keys.expect("scale_attn_by_inverse_layer_idx", false, "our attention");
  keys.expect("n_inner", 4 * model.hidden, "our MLP");
  return model;
}

// Before version 5 transformers had rope_theta beside rope_scaling, since then both in
// rope_parameters.
void read_rope(const Keys& keys, LlamaOptions& model) {
  model.rope_theta = keys.number("rope_theta", 10000.0);
  for (const char* const name : {"rope_scaling", "rope_parameters"}) {
    const Json* const object = keys.find(name);
    if (object == nullptr) continue;
    if (!object->is_object()) keys.refuse(name, "not an object");
    const Keys rope(*object, keys.path(), fmt::format("{}.", name));
    model.rope_theta = rope.number("rope_theta", model.rope_theta);
    const std::string type = rope.text("rope_type", rope.text("type", "default"));
    if (type == "default") continue;
    const auto scaling = value_named<ops::RopeScaling>(type);
    if (!scaling || *scaling == ops::RopeScaling::none)
      rope.refuse("rope_type", "and linear, llama3 and yarn are those that there are here");
    model.rope_scaling = *scaling;
    model.rope_factor = rope.number("factor", 1.0);
    if (model.rope_scaling == ops::RopeScaling::linear) continue;
    const bool yarn = model.rope_scaling == ops::RopeScaling::yarn;
    model.rope_low_turns = rope.number(yarn ? "beta_slow" : "low_freq_factor", 1.0);
    model.rope_high_turns = rope.number(yarn ? "beta_fast" : "high_freq_factor", yarn ? 32.0 : 4.0);
    model.rope_original_context = rope.find("original_max_position_embeddings") != nullptr
                                      ? rope.size("original_max_position_embeddings")
                                      : keys.size("max_position_embeddings");
    for (const char* const unknown : {"attention_factor", "mscale", "mscale_all_dim"}) {
      if (rope.find(unknown) != nullptr) rope.refuse(unknown, "which our rotary positions lack");
    }
    rope.expect("truncate", true, "our YaRN");
  }
}

LlamaOptions llama_of(const Keys& keys, std::string_view type) {
  LlamaOptions model{.layers = keys.size("num_hidden_layers"),
                     .hidden = keys.size("hidden_size"),
                     .heads = keys.size("num_attention_heads"),
                     .kv_heads = keys.size_or_none("num_key_value_heads"),
                     .head_size = keys.size_or_none("head_dim"),
                     .intermediate = keys.size("intermediate_size"),
                     .context = keys.size("max_position_embeddings"),
                     .vocabulary = keys.size("vocab_size"),
                     .tied_head = keys.flag("tie_word_embeddings", false),
                     .norm_epsilon = keys.number("rms_norm_eps", 1e-6),
                     .qkv_bias = type == "qwen2",
                     .qk_norm = type == "qwen3"};
  keys.expect("hidden_act", "silu", "our SwiGLU");
  if (type != "qwen2") keys.expect("attention_bias", false, "our attention");
  keys.expect("mlp_bias", false, "our MLP");
  const bool windowed = type == "mistral" || keys.flag("use_sliding_window", false);
  if (windowed) model.window = keys.size_or_none("sliding_window");
  if (type.starts_with("qwen") && model.window > 0)
    keys.expect("max_window_layers", 0, "our attention, with one window for all layers,");
  read_rope(keys, model);
  return model;
}

// One number for both sides, or height and width.
template <typename Options>
void read_image_size(const Keys& keys, Options& model) {
  const Json* const size = keys.find("image_size");
  if (size != nullptr && size->is_array() && size->size() == 2 && (*size)[0].is_number_integer() &&
      (*size)[1].is_number_integer()) {
    model.image_size = (*size)[0].get<std::int64_t>();
    model.image_width = (*size)[1].get<std::int64_t>();
  } else {
    model.image_size = keys.size("image_size");
  }
}

ops::GeluForm gelu_of(const Keys& keys) {
  const std::string gelu = keys.text("hidden_act", "gelu");
  if (gelu != "gelu" && gelu != "gelu_new" && gelu != "gelu_pytorch_tanh")
    keys.refuse("hidden_act", "and gelu, gelu_new and gelu_pytorch_tanh are those that there are");
  return gelu == "gelu" ? ops::GeluForm::exact : ops::GeluForm::tanh;
}

// The id that hides tokens stands with their tokenizer; that of the published vocabularies is 103.
BertOptions bert_of(const Keys& keys) {
  BertOptions model{.layers = keys.size("num_hidden_layers"),
                    .hidden = keys.size("hidden_size"),
                    .heads = keys.size("num_attention_heads"),
                    .intermediate = keys.size("intermediate_size"),
                    .context = keys.size("max_position_embeddings"),
                    .vocabulary = keys.size("vocab_size"),
                    .dropout = keys.number("hidden_dropout_prob", 0.0),
                    .norm_epsilon = keys.number("layer_norm_eps", 1e-12),
                    .gelu = gelu_of(keys),
                    .token_types = keys.size("type_vocab_size")};
  constexpr std::int64_t published_mask = 103;
  model.mask_token = keys.find("mask_token_id") != nullptr
                         ? keys.size("mask_token_id")
                         : std::min(published_mask, model.vocabulary - 1);
  keys.expect("is_decoder", false, "our encoder");
  keys.expect("position_embedding_type", "absolute", "our encoder");
  keys.expect("tie_word_embeddings", true, "our head");
  return model;
}

// Two where nothing is said of them.
std::int64_t classes_of(const Keys& keys) {
  const Json* const labels = keys.find("id2label");
  if (labels != nullptr && labels->is_object()) return static_cast<std::int64_t>(labels->size());
  return keys.find("num_labels") != nullptr ? keys.size("num_labels") : 2;
}

VitOptions vit_of(const Keys& keys) {
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
  return model;
}

std::vector<std::int64_t> sizes_of(const Keys& keys, const char* key) {
  const Json* const list = keys.find(key);
  const bool right = list != nullptr && list->is_array() && !list->empty() &&
                     std::ranges::all_of(*list, [](const Json& item) {
                       return item.is_number_integer() && item >= 1 && item <= 1 << 20;
                     });
  if (!right) keys.refuse(key, "not a list of sizes");
  return list->get<std::vector<std::int64_t>>();
}

// Theirs reads pictures of any size and need not say which: 224 as published.
ResNetOptions resnet_of(const Keys& keys) {
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
  return model;
}

Json read(const std::string& path) {
  Json object = Json::parse(read_whole_file(path, size_limit, ExitCode::checkpoint), nullptr,
                            /*allow_exceptions=*/false);
  if (!object.is_object()) fail(ExitCode::checkpoint, "{}: is not a JSON object", path);
  return object;
}

}  // namespace

ModelConfig model_of_their_config(const std::string& path) {
  const Json object = read(path);
  const Keys keys(object, path);
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
  Config theirs = default_config(), ours = default_config();
  theirs.model = model_of_their_config(path);
  ours.model = model;
  if (theirs.model.family != model.family)
    fail(ExitCode::config, "{}: describes a model of family {}, not model.family: {}", path,
         theirs.model.family, model.family);
  // "auto" and what it stands for are one.
  const auto spelled = [](Config& config) {
    if (config.model.family == bert_name) {
      auto& options = config.model.as<BertOptions>();
      options.intermediate = transformer_options(options).intermediate;
      options.mask_token = 1;
    }
    if (config.model.family == resnet_name) {  // whose weights read pictures of any size
      auto& options = config.model.as<ResNetOptions>();
      options.image_size = options.image_width = 0;
    }
    if (config.model.family == vit_name) {
      auto& options = config.model.as<VitOptions>();
      options.intermediate = transformer_options(options).intermediate;
      options.image_width = options.width_of_images();
    }
    if (config.model.family != llama_name) return;
    auto& options = config.model.as<LlamaOptions>();
    const TransformerOptions meant = transformer_options(options);
    options.kv_heads = meant.key_heads;
    options.head_size = meant.head_size;
    options.intermediate = meant.intermediate;
    options.rope_high_turns = meant.rope.high_turns;
    options.context = 0;
  };
  spelled(theirs);
  spelled(ours);
  const KeyValues wanted = values_by_key(ours), found = values_by_key(theirs);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto& [key, value] = wanted[i];
    const bool of_weights = key.starts_with("model.") && key != "model.dropout" &&
                            key != "model.init_std" && key != "model.mask_share" &&
                            key != "model.position_init";
    if (of_weights && value != found[i].second)
      fail(ExitCode::config, "{}: describes a model with {}: {}, and the config has {}", path, key,
           found[i].second, value);
  }
}

}  // namespace trireme
