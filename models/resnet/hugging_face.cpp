// SPDX-License-Identifier: Apache-2.0
#include "models/resnet/resnet.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "models/heads/head_exchange.h"
#include "models/images/image_config.h"
#include "models/resnet/resnet_block.h"
#include "models/transformer/exchange.h"
#include "runtime/base/error.h"

namespace trireme::hugging_face {
namespace {

using Json = nlohmann::json;

bool has_bottlenecks(const ResNetOptions& model) {
  return model.block == ResNetBlockKind::bottleneck;
}

class ResNetNames : NameList {
 public:
  explicit ResNetNames(const ResNetOptions& options) : options_(options) {}

  std::vector<NamePair> all() {
    constexpr std::int64_t stem_window = 7;
    const bool bottleneck = has_bottlenecks(options_);
    std::int64_t inputs = options_.width;
    unit("stem.convolution", "stem.norm", "resnet.embedder.embedder.",
         {inputs, options_.channels, stem_window, stem_window});
    for (std::size_t s = 0; s < options_.stages.size(); ++s) {
      const ResNetBlockOptions block{.bottleneck = bottleneck, .width = options_.width << s};
      for (std::int64_t i = 0; i < options_.stages[s]; ++i) {
        block_units(fmt::format("stages.{}.{}.", s, i),
                    fmt::format("resnet.encoder.stages.{}.layers.{}.", s, i), inputs, block);
        inputs = block.outputs();
      }
    }
    linear("classifier", "classifier.1", {head_choice(options_).outputs, inputs});
    return std::move(pairs_);
  }

 private:
  // A convolution with its batch norm; `filters` (out, in, height, width).
  void unit(const std::string& convolution, const std::string& norm, const std::string& hf,
            const Shape& filters) {
    add(convolution + ".weight", hf + "convolution.weight", filters);
    pairs_.back().filters = true;
    for (const auto& [own, other] : {std::pair{"weight", "weight"},
                                     {"bias", "bias"},
                                     {"running_mean", "running_mean"},
                                     {"running_variance", "running_var"}}) {
      add(norm + "." + own, hf + "normalization." + other, {filters[0]});
    }
  }
  void block_units(const std::string& ours, const std::string& hf, std::int64_t inputs,
                   const ResNetBlockOptions& block) {
    const auto branch = [&](int number, std::int64_t from, std::int64_t to, std::int64_t window) {
      unit(fmt::format("{}convolution{}", ours, number), fmt::format("{}norm{}", ours, number),
           fmt::format("{}layer.{}.", hf, number - 1), {to, from, window, window});
    };
    const std::int64_t width = block.width, outputs = block.outputs();
    if (block.bottleneck) {
      branch(1, inputs, width, 1);
      branch(2, width, width, 3);
      branch(3, width, outputs, 1);
    } else {
      branch(1, inputs, width, 3);
      branch(2, width, outputs, 3);
    }
    if (inputs != outputs)
      unit(ours + "convolution_shortcut", ours + "norm_shortcut", hf + "shortcut.",
           {outputs, inputs, 1, 1});
  }

  const ResNetOptions& options_;
};

// Refuses options that ResNetForImageClassification does not support.
void check_kind(const ResNetOptions& model) {
  if (model.stem != ResNetStemKind::imagenet)
    fail(ExitCode::config,
         "model.stem: {} is not supported by Hugging Face's ResNetForImageClassification, whose "
         "stem is 7x7 filters and a pooling; only stem: imagenet can be exchanged",
         name_of(model.stem));
  if (model.depth > 0)
    fail(ExitCode::config,
         "model.depth: {} is not supported by Hugging Face's ResNetForImageClassification; only "
         "models of images can be exchanged",
         model.depth);
}

std::vector<NamePair> resnet_names(const ModelConfig& config) {
  const auto& model = config.as<ResNetOptions>();
  check_kind(model);
  return ResNetNames(model).all();
}

std::string resnet_config(const ModelConfig& config) {
  const auto& model = config.as<ResNetOptions>();
  check_kind(model);
  std::vector<std::int64_t> widths;
  for (std::size_t s = 0; s < model.stages.size(); ++s)
    widths.push_back((model.width << s) * (has_bottlenecks(model) ? 4 : 1));
  return fmt::format(
      R"({{
  "model_type": "resnet",
  "architectures": ["ResNetForImageClassification"],
  "layer_type": "{}",
  "depths": [{}],
  "hidden_sizes": [{}],
  "embedding_size": {},
  "hidden_act": "relu",
  "downsample_in_first_stage": false,
  "downsample_in_bottleneck": false,
  {},
  "num_channels": {},
  {},
  "torch_dtype": "float32"
}}
)",
      name_of(model.block), fmt::join(model.stages, ", "), fmt::join(widths, ", "), model.width,
      image_size_text(model.image_size, width_of_images(model)), model.channels,
      head_text(head_choice(model)));
}

std::optional<std::string> resnet_plain_name(std::string_view hf, const ModelConfig& /*model*/) {
  if (hf.ends_with(".num_batches_tracked")) return {};  // see Exchange::counters
  return std::string(hf);
}

std::vector<std::string> resnet_counters(const ModelConfig& config) {
  std::vector<std::string> names;
  for (const NamePair& pair : resnet_names(config)) {
    constexpr std::string_view statistic = "running_mean";
    const std::string& name = pair.hf.front().name;
    if (name.ends_with(statistic))
      names.push_back(name.substr(0, name.size() - statistic.size()) + "num_batches_tracked");
  }
  return names;
}

std::vector<std::int64_t> sizes_of(const HfKeys& keys, const char* key) {
  const Json* const list = keys.find(key);
  const bool right = list != nullptr && list->is_array() && !list->empty() &&
                     std::ranges::all_of(*list, [](const Json& item) {
                       return item.is_number_integer() && item >= 1 && item <= 1 << 20;
                     });
  if (!right) keys.refuse(key, "not a list of sizes");
  return list->get<std::vector<std::int64_t>>();
}

// Hugging Face's model accepts any image size and need not store one: 224 as published.
void read_resnet(const HfKeys& keys, std::string_view /*type*/, ModelConfig& config) {
  config.family = resnet_name;
  auto& model = config.as<ResNetOptions>();
  const std::string type = keys.text("layer_type", "bottleneck");
  const auto block = value_named<ResNetBlockKind>(type);
  constexpr std::int64_t widest = 1 << 20;
  if (const std::int64_t width = keys.size("embedding_size"); width < 1 || width > widest)
    keys.refuse("embedding_size", "not 1 to 1048576");
  if (!block) keys.refuse("layer_type", "supported are basic and bottleneck");
  model = {.block = *block,
           .stages = sizes_of(keys, "depths"),
           .width = keys.size("embedding_size"),
           .stem = ResNetStemKind::imagenet,
           .channels = keys.size("num_channels")};
  read_head(keys, model);
  if (keys.find("image_size") != nullptr) {
    const auto [height, width] = image_sides_of(keys);
    model.image_size = height;
    model.image_width = width;
  }
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
}

// The weights fit any image size.
void canonicalize_resnet(ModelConfig& model) {
  auto& options = model.as<ResNetOptions>();
  options.image_size = options.image_width = 0;
  canonicalize_head(options);
}

}  // namespace

const Exchange& resnet_exchange() {
  static constexpr std::array<std::string_view, 1> types{"resnet"};
  static constexpr Exchange exchange{
      resnet_names, resnet_config,  resnet_plain_name, types, read_resnet, canonicalize_resnet, "",
      "",           resnet_counters};
  return exchange;
}

}  // namespace trireme::hugging_face
