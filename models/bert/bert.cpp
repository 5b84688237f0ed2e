// SPDX-License-Identifier: Apache-2.0
#include "models/bert/bert.h"

namespace trireme {

TransformerOptions transformer_options(const BertOptions& options) {
  const bool given = options.intermediate > 0;
  return {.layers = options.layers,
          .hidden = options.hidden,
          .heads = options.heads,
          .kv_heads = options.heads,
          .head_size = options.hidden / options.heads,
          .intermediate = given ? options.intermediate : 4 * options.hidden,
          .intermediate_name = given ? "model.intermediate" : "4 x model.hidden",
          .context = options.context,
          .vocabulary = options.vocabulary,
          .dropout = options.dropout,
          .norm = {.epsilon = options.norm_epsilon},
          .post_norm = true,
          .embedding_norm = true,
          .token_types = options.token_types,
          .head_transform = true,
          .head_bias = true,
          .activation = activation_of(options.gelu),
          .causal = false,
          .learned_positions = true,
          .init_std = options.init_std,
          .position_init = init_of(options.position_init, options.init_std)};
}

}  // namespace trireme
