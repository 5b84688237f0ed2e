// SPDX-License-Identifier: Apache-2.0
#include "models/gpt/gpt.h"

#include "models/transformer/head_rules.h"

namespace trireme {
TransformerOptions transformer_options(const GptOptions& options) {
  return {.layers = options.layers,
          .hidden = options.hidden,
          .heads = options.heads,
          .kv_heads = options.heads,
          .head_size = options.hidden / options.heads,
          .intermediate = 4 * options.hidden,
          .intermediate_name = "4 x model.hidden",
          .context = options.context,
          .vocabulary = options.vocabulary,
          .dropout = options.dropout,
          .activation = options.activation,
          .learned_positions = true,
          .init_std = options.init_std,
          .width = width_over(options.hidden, options.mup_base_width),
          .position_init = init_of(options.position_init, options.init_std / 2)};
}

}  // namespace trireme
