// SPDX-License-Identifier: Apache-2.0
#include "models/bert/bert_config.h"

#include "models/bert/bert.h"
#include "models/transformer/head_rules.h"
#include "runtime/nn/model.h"

namespace trireme {
namespace {

using config::IntegerRange;
using config::NumberRange;

#define BERT_FIELD(name, ...) TRIREME_MODEL_FIELD(BertOptions, name, __VA_ARGS__)

// Keys shared with other families: description and limits stand with the first family.
std::vector<config::Field> bert_fields() {
  return {
      BERT_FIELD(layers, IntegerRange{1, 1024}, ""),
      BERT_FIELD(hidden, IntegerRange{1, 65536}, ""),
      BERT_FIELD(heads, IntegerRange{1, 1024}, ""),
      BERT_FIELD(intermediate, (IntegerRange{1, 1 << 20, {}, "auto"}), ""),
      BERT_FIELD(context, IntegerRange{1, 1 << 20}, ""),
      BERT_FIELD(vocabulary, IntegerRange{2, 2147483647}, ""),
      BERT_FIELD(dropout, (NumberRange{.low = 0, .high = 1, .high_is_open = true}), ""),
      BERT_FIELD(init_std, (NumberRange{.low = 0, .high = 10, .low_is_open = true}), ""),
      BERT_FIELD(position_init, config::one_of<PositionInit>(), ""),
      BERT_FIELD(norm_epsilon, (NumberRange{.low = 0, .high = 1, .low_is_open = true}), ""),
      BERT_FIELD(gelu, config::one_of<GeluForm>(), ""),
      BERT_FIELD(token_types, IntegerRange{1, 1024},
                 "rows of the table of token types, of which samples use the first"),
      BERT_FIELD(mask_token, (IntegerRange{1, 2147483646, {}, "none"}),
                 "id that hides a token, below model.vocabulary; text does not have it"),
      BERT_FIELD(mask_share, (NumberRange{.low = 0, .high = 1, .low_is_open = true}),
                 "share of the tokens that are asked for: of these 80 % are hidden, 10 % become "
                 "another, 10 % stay"),
  };
}

void check_bert(const config::Subject& subject) {
  const auto& model = subject.config.model.as<BertOptions>();
  check_heads_of_hidden(subject, model.hidden, model.heads);
  if (model.mask_token >= 1 && model.mask_token < model.vocabulary) return;
  const std::string found = model.mask_token == 0
                                ? "none"
                                : fmt::format("{} is not below model.vocabulary = {}",
                                              model.mask_token, model.vocabulary);
  refuse(subject, "model.mask_token",
         "{}; give the id of the token that hides others, 1 to {}; for text of bytes use 256 with "
         "model.vocabulary: 257",
         found, model.vocabulary - 1);
}

}  // namespace

config::ModelFamily bert_family() {
  return {.name = bert_name,
          .input = config::Input::tokens,
          .splits_tensor = true,
          .fields = bert_fields,
          .check = check_bert,
          .limits =
              [](const Config& config) {
                return limits_of(
                    transformer_chain(transformer_options(config.model.as<BertOptions>())));
              },
          .targets_per_sample =
              [](const ModelConfig& model) { return model.as<BertOptions>().context; }};
}

}  // namespace trireme
