// SPDX-License-Identifier: Apache-2.0
#include "models/bert/bert.h"

#include "models/transformer/keys.h"

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
          .head = head_choice(options),
          .activation = activation_of(options.gelu),
          .causal = false,
          .learned_positions = true,
          .position_offset = options.position_offset,
          .tied_head = head_choice(options).is_language(),
          .init_std = options.init_std,
          .position_init = init_of(options.position_init, options.init_std)};
}

namespace {

using config::IntegerRange;
using config::NumberRange;

#define BERT_FIELD(name, ...) TRIREME_MODEL_FIELD(BertOptions, name, __VA_ARGS__)

std::vector<config::Field> bert_fields() {
  return head_fields<BertOptions>(transformer_fields<BertOptions>({
      BERT_FIELD(position_offset, (IntegerRange{0, 1024}),
                 "rows of the position table before that of the first token (RoBERTa: 2)"),
      BERT_FIELD(token_types, IntegerRange{1, 1024},
                 "rows of the token type table; samples use the first"),
      BERT_FIELD(mask_token, (IntegerRange{1, 2147483646, {}, "none"}),
                 "id of the mask token, below model.vocabulary; must not occur in text"),
      BERT_FIELD(mask_probability, (NumberRange{.low = 0, .high = 1, .low_is_open = true}),
                 "probability that a token is to be predicted: 80 % of these are masked, 10 % "
                 "replaced by a "
                 "random token, 10 % kept")
          .changing(config::Effect::history)
          .formerly_named("model.mask_share"),
  }));
}

void check_bert(const config::Subject& subject) {
  const auto& model = subject.config.model.as<BertOptions>();
  check_heads_of_hidden(subject, model.hidden, model.heads);
  check_text_head(subject, model);
  if (head_kind(model) != HeadKind::language) return;
  if (model.mask_token >= 1 && model.mask_token < model.vocabulary) return;
  const std::string found = model.mask_token == 0
                                ? "none"
                                : fmt::format("{} is not below model.vocabulary = {}",
                                              model.mask_token, model.vocabulary);
  refuse(subject, "model.mask_token",
         "{}; give the id of the mask token, 1 to {}; for text of bytes use 256 with "
         "model.vocabulary: 257",
         found, model.vocabulary - 1);
}

}  // namespace

config::ModelFamily bert_family() {
  return text_family<BertOptions>(bert_name, bert_fields, check_bert);
}

}  // namespace trireme
