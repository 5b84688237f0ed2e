// SPDX-License-Identifier: Apache-2.0
#include "models/transformer/transformer.h"

#include <algorithm>
#include <cmath>

#include "models/heads/row_head.h"
#include "models/transformer/block.h"
#include "models/transformer/embedding.h"
#include "models/transformer/head.h"
#include "models/transformer/post_norm_block.h"
#include "models/transformer/token_transform.h"

namespace trireme {

Init init_of(PositionInit positions, double std) {
  // Large compared with the token table, whose rows start near 0.02: attention then finds
  // neighbours early.
  constexpr float sinusoid_amplitude = 0.1F;
  if (positions == PositionInit::sinusoidal) return Init::sinusoid(sinusoid_amplitude);
  return Init::normal(static_cast<float>(std));
}

Init TransformerOptions::hidden_init() const {
  const auto times = static_cast<float>(width);
  return Init::normal(static_cast<float>(init_std) / std::sqrt(times)).at_rate(1.0F / times);
}

Init TransformerOptions::residual_init() const {
  const Init init = hidden_init();
  return Init::normal(init.b / std::sqrt(2.0F * static_cast<float>(layers))).at_rate(init.rate);
}

TransformerOptions TransformerOptions::of_layer(std::int64_t index) const {
  TransformerOptions layer = *this;
  layer.global_every = 0;
  if (unrotated_every > 0 && (index + 1) % unrotated_every == 0) layer.rotary = false;
  if ((index + 1) % experts_every != 0 ||
      std::ranges::find(dense_layers, index) != dense_layers.end())
    layer.experts = {};
  if (global_every == 0 || (index + 1) % global_every != 0) return layer;
  layer.window = 0;
  layer.rope = global_rope;
  return layer;
}

void add_blocks(Chain& chain, const TransformerOptions& options) {
  for (std::int64_t i = 0; i < options.layers; ++i) {
    chain.push_back({.make = [options, i](Blueprint& blueprint) -> std::unique_ptr<Layer> {
                       const auto scope = blueprint.layer(fmt::format("blocks.{}", i));
                       const TransformerOptions layer = options.of_layer(i);
                       if (options.post_norm)
                         return std::make_unique<PostNormBlock>(blueprint, layer, i);
                       return std::make_unique<TransformerBlock>(blueprint, layer, i);
                     },
                     .block = true});
  }
}

namespace {

// As transformers has them: BERT reads the first token through a pooler, decoders the last one.
RowHeadOptions row_head(const TransformerOptions& options) {
  const bool tokens = options.head.of_tokens();
  return {.head = options.head,
          .context = options.context,
          .hidden = options.hidden,
          .pooling = tokens           ? RowPooling::all
                     : options.causal ? RowPooling::last
                                      : RowPooling::first,
          .norm = options.post_norm ? std::nullopt : std::optional(options.norm),
          .norm_gain = 1.0F / static_cast<float>(options.width),
          .pooler = options.head_transform && !tokens,
          .dropout = options.causal && !tokens ? 0 : options.dropout,
          .bias = !options.causal || tokens,
          .init = options.matrix_init()};
}

}  // namespace

Chain transformer_chain(const TransformerOptions& options) {
  Chain chain;
  chain.push_back({.make = [options](Blueprint& blueprint) -> std::unique_ptr<Layer> {
    const auto scope = blueprint.layer("");
    return std::make_unique<Embedding>(blueprint, options);
  }});
  add_blocks(chain, options);
  if (!options.head.is_language()) {
    chain.push_back({.make = [options](Blueprint& blueprint) -> std::unique_ptr<Layer> {
      const auto scope = blueprint.layer("");
      return std::make_unique<RowHead>(blueprint, row_head(options));
    }});
    return chain;
  }
  if (options.head_transform) {
    chain.push_back({.make = [options](Blueprint& blueprint) -> std::unique_ptr<Layer> {
      const auto scope = blueprint.layer("");
      return std::make_unique<TokenTransform>(blueprint, options);
    }});
  }
  chain.push_back({.make = [options](Blueprint& blueprint) -> std::unique_ptr<Layer> {
    const auto scope = blueprint.layer("");
    return std::make_unique<LanguageHead>(blueprint, options);
  }});
  return chain;
}

}  // namespace trireme
