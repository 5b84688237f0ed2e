// SPDX-License-Identifier: Apache-2.0
#include "models/gpt/gpt.h"

#include "models/gpt/embedding_layer.h"
#include "models/gpt/gpt_block.h"
#include "models/gpt/gpt_head.h"

namespace trireme {

Chain gpt_chain(const GptOptions& options) {
  Chain chain;
  chain.push_back({.make = [options](Blueprint& blueprint) -> std::unique_ptr<Layer> {
    const auto scope = blueprint.layer("");
    return std::make_unique<GptEmbedding>(blueprint, options);
  }});
  for (std::int64_t i = 0; i < options.layers; ++i) {
    chain.push_back({.make = [options, i](Blueprint& blueprint) -> std::unique_ptr<Layer> {
                       const auto scope = blueprint.layer(fmt::format("blocks.{}", i));
                       return std::make_unique<GptBlock>(blueprint, options, i);
                     },
                     .block = true});
  }
  chain.push_back({.make = [options](Blueprint& blueprint) -> std::unique_ptr<Layer> {
    const auto scope = blueprint.layer("");
    return std::make_unique<GptHead>(blueprint, options);
  }});
  return chain;
}

}  // namespace trireme
