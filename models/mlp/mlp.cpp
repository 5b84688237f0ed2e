// SPDX-License-Identifier: Apache-2.0
#include "models/mlp/mlp.h"

#include "models/heads/dense_head.h"
#include "models/layers/sequence.h"
#include "runtime/config/rules/rules.h"

namespace trireme {

Chain mlp_chain(const MlpOptions& options, const HeadChoice& head) {
  Chain chain;
  for (std::size_t i = 0; i < options.convolutions.size(); ++i) {
    const std::string name = fmt::format("convolutions.{}", i);
    chain.push_back(in_scope<SequenceLayer>(name, name, [=](Sequence& sequence) {
      if (i == 0) sequence.of_batch(1, options.length, options.channels);
      sequence.convolution("convolution", options.convolutions[i], options.kernel_size, 2,
                           {.signals = true});
      sequence.norm("norm");
    }));
    chain.back().block = true;
  }
  chain.push_back({.make = [=](Blueprint& blueprint) -> std::unique_ptr<Layer> {
    const auto scope = blueprint.layer("");
    const Shape batch{blueprint.micro_batch(), 1, options.length, options.channels};
    return std::make_unique<DenseHead>(
        blueprint, DenseHeadOptions{options.dense, options.dropout, 0, batch}, head);
  }});
  return chain;
}

namespace {

using config::IntegerRange;
using config::NumberRange;

#define MLP_FIELD(name, ...) TRIREME_MODEL_FIELD(MlpOptions, name, __VA_ARGS__)

std::vector<config::Field> mlp_fields() {
  return head_fields<MlpOptions>({
      MLP_FIELD(length, IntegerRange{1, 1 << 24}, "positions of a signal; of tables 1"),
      MLP_FIELD(channels, IntegerRange{1, 4096}, "channels of the input; of a table: its columns"),
      MLP_FIELD(convolutions, (IntegerRange{1, 65536, {0, 16}}),
                "channels of the convolutions along a signal; each halves it"),
      MLP_FIELD(kernel_size, IntegerRange{1, 1023}, "width of their windows, an odd number")
          .formerly_named("model.taps"),
      MLP_FIELD(dense, (IntegerRange{1, 65536, {0, 8}}), "widths of the dense layers but the last"),
      MLP_FIELD(dropout, (NumberRange{.low = 0, .high = 1, .high_is_open = true}),
                "dropout probability")
          .changing(config::Effect::history),
  });
}

void check_mlp(const config::Subject& subject) {
  if (!subject.config.data.path.empty())
    refuse(subject, "data.path", "packed shards hold no tables; name files by data.files");
  const auto& model = subject.config.model.as<MlpOptions>();
  check_head(subject, head_choice(model), /*of_texts=*/false);
  if (model.kernel_size % 2 == 0)
    refuse(subject, "model.kernel_size", "{} has no middle; use {}", model.kernel_size,
           model.kernel_size + 1);
  if (!model.convolutions.empty() && model.length == 1)
    refuse(subject, "model.convolutions",
           "of a table (model.length: 1), whose columns have no order; use [], or set model.length "
           "and read signals with data.axes: NWC");
}

}  // namespace

config::ModelFamily mlp_family() {
  return {.name = mlp_name,
          .input = config::Input::fields,
          .fields = mlp_fields,
          .check = check_mlp,
          .limits = [](const Config& config) { return limits_of(mlp_chain(config)); },
          .targets =
              [](const ModelConfig& model) {
                return head_targets(head_choice(model.as<MlpOptions>()));
              }};
}

Chain mlp_chain(const Config& config) {
  const auto& model = config.model.as<MlpOptions>();
  return mlp_chain(model, head_choice(model, config.train));
}

}  // namespace trireme
