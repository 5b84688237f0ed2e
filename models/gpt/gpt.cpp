// SPDX-License-Identifier: Apache-2.0
#include "models/gpt/gpt.h"

#include "models/gpt/block.h"
#include "models/gpt/embedding_layer.h"
#include "models/gpt/head.h"

namespace trireme {

Model::Declaration declare_gpt(Blueprint& blueprint, const GptOptions& options) {
  Model::Declaration declaration;
  declaration.layers.push_back(
      std::make_unique<GptEmbedding>(blueprint, options));  // needs no scratch
  for (std::int64_t i = 0; i < options.layers; ++i) {
    const auto scope = blueprint.layer(fmt::format("blocks.{}", i));
    declaration.layers.push_back(std::make_unique<GptBlock>(blueprint, options, i));
  }
  const auto scope = blueprint.layer("");
  auto head = std::make_unique<GptHead>(blueprint, options);
  declaration.head = head->info();
  declaration.layers.push_back(std::move(head));
  return declaration;
}

}  // namespace trireme
