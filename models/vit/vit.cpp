// SPDX-License-Identifier: Apache-2.0
#include "models/vit/vit.h"

#include "models/vit/class_head.h"
#include "models/vit/patch_embedding.h"

namespace trireme {

TransformerOptions transformer_options(const VitOptions& options) {
  const bool given = options.intermediate > 0;
  return {.layers = options.layers,
          .hidden = options.hidden,
          .heads = options.heads,
          .kv_heads = options.heads,
          .head_size = options.hidden / options.heads,
          .intermediate = given ? options.intermediate : 4 * options.hidden,
          .intermediate_name = given ? "model.intermediate" : "4 x model.hidden",
          .context = options.rows(),
          .context_name = options.class_tokens() > 0 ? "(1 + the patches of an image)"
                                                     : "the patches of an image",
          .dropout = options.dropout,
          .norm = {.epsilon = options.norm_epsilon},
          .activation = activation_of(options.gelu),
          .causal = false,
          .learned_positions = true,
          .init_std = options.init_std,
          .position_init = Init::normal(static_cast<float>(options.init_std))};
}

Chain vit_chain(const VitOptions& options, const ops::AugmentOptions& augment) {
  const TransformerOptions block = transformer_options(options);
  Chain chain{{.make = [=](Blueprint& blueprint) -> std::unique_ptr<Layer> {
    const auto scope = blueprint.layer("embedding");
    return std::make_unique<PatchEmbedding>(blueprint, options, block, augment);
  }}};
  add_blocks(chain, block);
  chain.push_back({.make = [=](Blueprint& blueprint) -> std::unique_ptr<Layer> {
    const auto scope = blueprint.layer("");
    return std::make_unique<ClassHead>(blueprint, block, options, augment.mix);
  }});
  return chain;
}

}  // namespace trireme
