// SPDX-License-Identifier: Apache-2.0
#include "launch/exchange/hf_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "data/fields/statistics.h"
#include "data/images/image_options.h"
#include "data/tokenizer/tokenizer.h"
#include "models/config.h"
#include "models/registry.h"
#include "models/transformer/hf_keys.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/config/rules/rules.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t size_limit = std::uint64_t{1} << 24;

Json read(const std::string& path) {
  try {
    Json object = parse_json(read_whole_file(path, size_limit, ExitCode::checkpoint));
    if (object.is_object()) return object;
    fail(ExitCode::checkpoint, "{}: is not a JSON object", path);
  } catch (const Json::exception& error) {
    fail(ExitCode::checkpoint, "{}: is not a JSON object: {}", path, error.what());
  }
}

// Sizes of transformers' configuration classes, for keys that a file lacks. 0: none, or it follows
// from the others.
struct PublishedSizes {
  std::string_view type;
  std::int64_t layers, hidden, heads, kv_heads, intermediate, context, vocabulary;
};
constexpr auto published_sizes =
    std::to_array<PublishedSizes>({{"gpt2", 12, 768, 12, 0, 0, 1024, 50257},
                                   {"bert", 12, 768, 12, 0, 3072, 512, 30522},
                                   {"roberta", 12, 768, 12, 0, 3072, 512, 50265},
                                   {"xlm-roberta", 12, 768, 12, 0, 3072, 512, 30522},
                                   {"camembert", 12, 768, 12, 0, 3072, 512, 30522},
                                   {"llama", 32, 4096, 32, 0, 11008, 2048, 32000},
                                   {"mistral", 32, 4096, 32, 8, 14336, 131072, 32000},
                                   {"qwen2", 32, 4096, 32, 32, 22016, 32768, 151936},
                                   {"qwen3", 32, 4096, 32, 32, 22016, 32768, 151936},
                                   {"mixtral", 32, 4096, 32, 8, 14336, 131072, 32000},
                                   {"qwen3_moe", 24, 2048, 32, 4, 6144, 32768, 151936},
                                   {"dots1", 62, 4608, 32, 32, 10944, 2048, 152064},
                                   {"phi3", 32, 3072, 32, 0, 8192, 4096, 32064},
                                   {"smollm3", 36, 2048, 16, 4, 11008, 32768, 128256},
                                   {"olmo2", 32, 4096, 32, 0, 11008, 2048, 50304},
                                   {"gemma3_text", 26, 2304, 8, 4, 9216, 131072, 262208},
                                   {"gpt_oss", 36, 2880, 64, 8, 2880, 131072, 201088},
                                   {"vit", 12, 768, 12, 0, 3072, 0, 0},
                                   {"deit", 12, 768, 12, 0, 3072, 0, 0}});

void add_published_sizes(Json& object) {
  const Json type = object.value("model_type", Json());
  if (type == "resnet") {
    Json all = parse_json(R"({"embedding_size": 64, "num_channels": 3, "depths": [3, 4, 6, 3],
                                "hidden_sizes": [256, 512, 1024, 2048]})");
    all.update(object);
    object = std::move(all);
  }
  for (const PublishedSizes& sizes : published_sizes) {
    if (type != sizes.type) continue;
    const bool gpt = sizes.type == "gpt2";
    for (const auto& [key, size] :
         {std::pair{gpt ? "n_layer" : "num_hidden_layers", sizes.layers},
          {gpt ? "n_embd" : "hidden_size", sizes.hidden},
          {gpt ? "n_head" : "num_attention_heads", sizes.heads},
          {"num_key_value_heads", sizes.kv_heads},
          {"intermediate_size", sizes.intermediate},
          {gpt ? "n_positions" : "max_position_embeddings", sizes.context},
          {"vocab_size", sizes.vocabulary}})
      if (size > 0 && !object.contains(key)) object[key] = size;
  }
}

void read_model(const HfKeys& keys, const std::string& type, ModelConfig& model) {
  std::vector<std::string_view> known;
  for (const Family& family : families()) {
    const auto& types = family.exchange->types;
    if (std::ranges::find(types, type) != types.end())
      return family.exchange->read(keys, type, model);
    known.insert(known.end(), types.begin(), types.end());
  }
  fail(ExitCode::config, "{}: model_type is {}; weights of {} models can be imported", keys.path(),
       type.empty() ? "missing" : fmt::format("\"{}\"", type), fmt::join(known, ", "));
}

// Of BERT's mask, which config.json seldom names, by the tokenizer beside it; "" if it cannot tell.
std::string mask_token_beside(const std::string& directory, const Config& config) {
  const std::string path = directory + "/tokenizer.json";
  if (config.model.family != "bert" || !std::filesystem::exists(path)) return {};
  try {
    const Tokenizer tokenizer(path);
    for (const char* const name : {"[MASK]", "<mask>"})
      if (const auto id = tokenizer.id_of(name); id && *id < traits_of(config.model).vocabulary)
        return fmt::format("model.mask_token={}", *id);
  } catch (const Error&) {  // an import names what is unsupported
  }
  return {};
}

}  // namespace

ModelConfig model_of_hf_config(const std::string& path) {
  Json object = read(path);
  add_published_sizes(object);
  const HfKeys keys(object, path);
  const std::string type = keys.text("model_type");
  ModelConfig model;
  read_model(keys, type, model);
  keys.expect_nothing_else();
  // Applies the limits of our keys, and the rules between them.
  Config config = default_config();
  config.model = model;
  std::vector<std::string> told;
  if (keys.find("mask_token_id") == nullptr)
    told.push_back(mask_token_beside(std::filesystem::path(path).parent_path().string(), config));
  std::erase(told, "");
  config = parse_config(to_yaml(config), path + " as a Trireme config", told);
  const Environment environment;
  const Provenance where;
  const config::Subject subject{key_table(), config, environment, where, Purpose::generate};
  subject.family().check(subject);
  return config.model;
}

void check_hf_config(const std::string& path, const ModelConfig& model, bool head_too) {
  if (!std::filesystem::exists(path)) return;
  for (const auto& [key, ours, theirs] : function_differences(model, model_of_hf_config(path))) {
    const bool of_head = is_head_key(key);
    if (of_head && !head_too) continue;
    fail(ExitCode::config, "{}: describes a model with {}: {}, but the config has {}{}", path, key,
         theirs, ours, of_head ? "; name the head's tensors by --reinitialise" : "");
  }
}

namespace {

using Json = nlohmann::json;

constexpr double byte_scale = 1.0 / 255;

bool flag(const Json& file, const char* key, bool otherwise) {
  const auto found = file.find(key);
  return found != file.end() && found->is_boolean() ? found->get<bool>() : otherwise;
}

// One number for each channel, or `otherwise` for all of them where the key is missing.
std::vector<double> per_channel(const Json& file, const std::string& path, const char* key,
                                std::int64_t channels, double otherwise) {
  const auto found = file.find(key);
  if (found == file.end() || found->is_null())
    return std::vector<double>(static_cast<std::size_t>(channels), otherwise);
  const bool numbers = found->is_array() && std::ranges::all_of(*found, [](const Json& item) {
                         return item.is_number() && std::isfinite(item.get<double>());
                       });
  if (!numbers || std::ssize(*found) != channels)
    fail(ExitCode::config, "{}: {} is {}, not {} numbers, one per channel of the model", path, key,
         found->dump(), channels);
  return found->get<std::vector<double>>();
}

}  // namespace

std::string preprocessor_text(const ModelTraits& traits, const DataConfig& data) {
  const std::int64_t side = std::min(traits.image_size, traits.image_width);
  // Packed images have been resized and cropped before.
  const std::int64_t resized = data.kind() != SourceKind::images ? side
                               : data.eval_resize > 0            ? data.eval_resize
                                                                 : centre_resize(side);
  const auto channels = static_cast<std::size_t>(traits.channels);
  std::vector<double> mean = data.mean, deviation = data.std;
  // Values of any range, of the model's size; an import knows of them before any data is named.
  const bool in_place = data.kind() == SourceKind::files || data.scaling != Scaling::none;
  if (data.scaling != Scaling::none) {
    const ChannelScale scale = load_scale(data);
    mean.assign(scale.subtract.begin(), scale.subtract.end());
    deviation.clear();
    for (const float factor : scale.multiply)
      deviation.push_back(1 / static_cast<double>(factor));
  }
  const auto or_all = [&](const std::vector<double>& values, double otherwise) {
    return values.empty() ? std::vector<double>(channels, otherwise) : values;
  };
  return fmt::format(
      R"({{
  "image_processor_type": "CLIPImageProcessor",
  "do_resize": {},
  "size": {{"shortest_edge": {}}},
  "resample": 2,
  "do_center_crop": {},
  "crop_size": {{"height": {}, "width": {}}},
  "do_convert_rgb": {},
  "do_rescale": {},
  "rescale_factor": {},
  "do_normalize": true,
  "image_mean": [{}],
  "image_std": [{}]
}}
)",
      !in_place, resized, !in_place, traits.image_size, traits.image_width,
      traits.channels == 3 && !in_place, !in_place, byte_scale, fmt::join(or_all(mean, 0), ", "),
      fmt::join(or_all(deviation, 1), ", "));
}

std::string read_preprocessor(const std::string& directory, const ModelTraits& traits) {
  const std::string path = directory + "/" + preprocessor_file;
  const auto text = read_file_if_exists(path, std::uint64_t{1} << 24, ExitCode::checkpoint);
  if (!text || traits.input != InputKind::images) return {};
  const Json file = json_or_discarded(*text);
  if (!file.is_object()) fail(ExitCode::checkpoint, "{}: is not a JSON object", path);
  const auto factor = file.find("rescale_factor");
  const bool scaled = factor == file.end() ||
                      (factor->is_number() && std::abs(factor->get<double>() - byte_scale) < 1e-9);
  const bool rescaled = flag(file, "do_rescale", true), whole = flag(file, "do_normalize", true);
  if (rescaled && !scaled)
    fail(ExitCode::config,
         "{}: pixels are not divided by 255 (rescale_factor), but data.mean and data.std apply to "
         "pixels in 0..1; remove the file, and set both in the config",
         path);
  if (rescaled && !whole) return {};
  const Json normalised = whole ? file : Json::object();
  const auto mean = per_channel(normalised, path, "image_mean", traits.channels, 0);
  const auto deviation = per_channel(normalised, path, "image_std", traits.channels, 1);
  if (const auto bad = std::ranges::find_if(deviation, [](double value) { return value <= 0; });
      bad != deviation.end())
    fail(ExitCode::config, "{}: image_std has {}, which cannot divide pixels; use more than 0",
         path, *bad);
  return fmt::format("data: {{{}mean: [{}], std: [{}]}}\n", rescaled ? "" : "scaling: mean_std, ",
                     fmt::join(mean, ", "), fmt::join(deviation, ", "));
}

}  // namespace trireme
