// SPDX-License-Identifier: Apache-2.0
#include "models/gpt/gpt_config.h"

#include "models/gpt/gpt.h"
#include "models/transformer/head_rules.h"
#include "runtime/nn/model.h"

namespace trireme {
namespace {

using config::IntegerRange;
using config::NumberRange;

#define GPT_FIELD(name, ...) TRIREME_MODEL_FIELD(GptOptions, name, __VA_ARGS__)

std::vector<config::Field> gpt_fields() {
  return {
      GPT_FIELD(layers, IntegerRange{1, 1024}, "transformer blocks"),
      GPT_FIELD(hidden, IntegerRange{1, 65536}, "width of the residual stream"),
      GPT_FIELD(heads, IntegerRange{1, 1024},
                "attention heads, of queries; a divisor of model.hidden unless model.head_size "
                "is set"),
      GPT_FIELD(context, IntegerRange{1, 1 << 20}, "tokens per sequence"),
      GPT_FIELD(vocabulary, IntegerRange{2, 2147483647}, "token ids; 256 = bytes"),
      GPT_FIELD(dropout, (NumberRange{.low = 0, .high = 1, .high_is_open = true}),
                "share of activations dropped"),
      config::renamed(
          GPT_FIELD(init_std, (NumberRange{.low = 0, .high = 10, .low_is_open = true}),
                    "standard deviation of the normal that matrices are drawn from; 0.02 as "
                    "published, about 1/sqrt(hidden) for small models"),
          "model.init_deviation"),
      GPT_FIELD(activation, config::one_of<ops::ActivationKind>(),
                "what the MLP does between its two products; device.fused_epilogues can compute "
                "gelu_tanh beside matmuls"),
      GPT_FIELD(position_init, config::one_of<PositionInit>(),
                "how learned positions start: as published, or as sine waves (small models learn "
                "much faster)"),
      GPT_FIELD(mup_base_width, (IntegerRange{1, 65536, {}, "off"}),
                "muP: model.hidden of the model whose optimizer.learning_rate and init_std these "
                "are; a wider one of the same head size then needs no others (Yang et al., 2022)"),
  };
}

void check_gpt(const config::Subject& subject) {
  const auto& model = subject.config.model.as<GptOptions>();
  check_heads_of_hidden(subject, model.hidden, model.heads);
  check_width_transfer(subject, model.mup_base_width);
}

}  // namespace

config::ModelFamily gpt2_family() {
  return {
      .name = gpt2_name,
      .input = config::Input::tokens,
      .splits_tensor = true,
      .fields = gpt_fields,
      .check = check_gpt,
      .limits =
          [](const Config& config) { return limits_of(gpt_chain(config.model.as<GptOptions>())); },
      .targets_per_sample =
          [](const ModelConfig& model) { return model.as<GptOptions>().context; }};
}

}  // namespace trireme
