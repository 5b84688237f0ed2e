// SPDX-License-Identifier: Apache-2.0
#include "models/gpt/embedding_layer.h"

#include "runtime/base/philox.h"
#include "runtime/ops/dropout.h"
#include "runtime/ops/embedding.h"

namespace trireme {
namespace {

constexpr std::string_view dropout_site = "embedding.dropout";

// Large enough to stand out of the token table, whose rows start near 0.02: attention then finds
// neighbours early.
constexpr float sinusoid_amplitude = 0.1F;

Init position_init(const GptOptions& options) {
  return options.sinusoidal_positions ? Init::sinusoid(sinusoid_amplitude)
                                      : Init::normal(options.init_deviation / 2);
}

}  // namespace

ParamSpec token_table_spec(const GptOptions& options) {
  return {.name = "embedding.token.weight",
          .shape = {padded_vocabulary(options.vocabulary), options.hidden},
          .init = Init::normal(options.init_deviation),
          .decay = true,
          .matrix = true,
          .shard_axis = 0};
}

GptEmbedding::GptEmbedding(Blueprint& blueprint, const GptOptions& options)
    : Layer("embedding", Shape{blueprint.micro_batch(), options.context, options.hidden}),
      dropout_(options.dropout) {
  tokens_ = blueprint.shared_parameter(token_table_spec(options));
  positions_ = blueprint.shared_parameter({.name = "embedding.position.weight",
                                           .shape = {options.context, options.hidden},
                                           .init = position_init(options),
                                           .matrix = true});
}

void GptEmbedding::forward(const Context& context, const Tensor& x, const Tensor& y) {
  ops::embedding_forward(context.stream, y, x, context.params.compute(tokens_),
                         context.params.compute(positions_));
  if (context.training && dropout_ > 0) {
    ops::dropout(context.stream, y, y, context.batch.sample_ids, context.rng,
                 stable_id(dropout_site.data(), dropout_site.size()), dropout_);
  }
}

void GptEmbedding::backward(const Context& context, const Tensor& x, const Tensor& /*y*/,
                            const Tensor& dy, const Tensor& /*dx*/) {
  if (dropout_ > 0) {
    ops::dropout(context.stream, dy, dy, context.batch.sample_ids, context.rng,
                 stable_id(dropout_site.data(), dropout_site.size()), dropout_);
  }
  ops::embedding_backward(context.stream, context.params.gradient(tokens_),
                          context.params.gradient(positions_), dy, x);
  context.ready(positions_);
  context.ready(tokens_);  // the tied head has added its part before
}

}  // namespace trireme
