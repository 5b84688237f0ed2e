// SPDX-License-Identifier: Apache-2.0
#include "models/gpt/gpt.h"

#include "models/transformer/keys.h"

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
          .fused_qkv = true,
          .learned_positions = true,
          .init_std = options.init_std,
          .width = width_over(options.hidden, options.mup_base_width),
          .position_init = init_of(options.position_init, options.init_std / 2)};
}

namespace {

void check_gpt(const config::Subject& subject) {
  const auto& model = subject.config.model.as<GptOptions>();
  check_heads_of_hidden(subject, model.hidden, model.heads);
  check_width_transfer(subject, model.mup_base_width);
}

}  // namespace

config::ModelFamily gpt2_family() {
  return text_family<GptOptions>(
      gpt2_name, [] { return transformer_fields<GptOptions>(); }, check_gpt);
}

}  // namespace trireme
