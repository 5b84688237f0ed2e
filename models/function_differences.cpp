// SPDX-License-Identifier: Apache-2.0
#include "models/function_differences.h"

#include <algorithm>
#include <array>

#include "models/bert/bert.h"
#include "models/bert/bert_config.h"
#include "models/config.h"
#include "models/llama/llama.h"
#include "models/llama/llama_config.h"
#include "models/resnet/resnet.h"
#include "models/resnet/resnet_config.h"
#include "models/vit/vit_config.h"

namespace trireme {
namespace {

constexpr std::array<std::string_view, 4> of_training = {"model.dropout", "model.init_std",
                                                         "model.mask_share", "model.position_init"};

// "auto" as what it stands for, and what does not count as one value.
ModelConfig spelled(ModelConfig model) {
  if (model.family == bert_name) {
    auto& options = model.as<BertOptions>();
    options.intermediate = transformer_options(options).intermediate;
    options.mask_token = 1;
  } else if (model.family == resnet_name) {  // whose weights read pictures of any size
    auto& options = model.as<ResNetOptions>();
    options.image_size = options.image_width = 0;
  } else if (model.family == vit_name) {
    auto& options = model.as<VitOptions>();
    options.intermediate = transformer_options(options).intermediate;
    options.image_width = options.width_of_images();
  } else if (model.family == llama_name) {
    auto& options = model.as<LlamaOptions>();
    const TransformerOptions meant = transformer_options(options);
    options.kv_heads = meant.key_heads;
    options.head_size = meant.head_size;
    options.intermediate = meant.intermediate;
    options.rope_high_turns = meant.rope.high_turns;
    options.context = 0;
  }
  return model;
}

}  // namespace

std::vector<FunctionDifference> function_differences(const ModelConfig& ours,
                                                     const ModelConfig& theirs) {
  if (ours.family != theirs.family) return {{"model.family", ours.family, theirs.family}};
  Config left = default_config(), right = default_config();
  left.model = spelled(ours);
  right.model = spelled(theirs);
  const KeyValues wanted = values_by_key(left), found = values_by_key(right);
  std::vector<FunctionDifference> differences;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto& [key, value] = wanted[i];
    if (key.starts_with("model.") && value != found[i].second &&
        std::ranges::find(of_training, key) == of_training.end())
      differences.push_back({key, value, found[i].second});
  }
  return differences;
}

}  // namespace trireme
