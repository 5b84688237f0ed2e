// SPDX-License-Identifier: Apache-2.0
#include "models/experts/router.h"

namespace trireme {

Router::Router(Blueprint& blueprint, const ExpertOptions& options, const RowSplit& rows, Init init)
    : options_(options.router),
      balance_{.sequence = static_cast<float>(options.sequence_balance_loss),
               .batch = static_cast<float>(options.balance_loss)},
      z_loss_(static_cast<float>(options.z_loss)),
      sequences_(rows.whole()[0]),
      rows_(rows.rows()),
      hidden_(rows.whole()[2]),
      split_backward_(blueprint.splits_backward()) {
  const auto scope = blueprint.scope("router");
  const Shape experts{options.count};
  weight_ = blueprint.parameter(
      {.name = "weight", .shape = {options.count, hidden_}, .init = init, .decay = true});
  if (options.router_bias) bias_ = blueprint.parameter({.name = "bias", .shape = experts});
  load_ = blueprint.parameter({.name = "load",
                               .shape = experts,
                               .kind = ParamKind::statistic,
                               .statistic_decay = 0,
                               .slots = options.router.slots});
  if (options.choice_bias()) {
    bias_of_choice_ =
        blueprint.parameter({.name = "balance",
                             .shape = experts,
                             .kind = ParamKind::statistic,
                             .statistic_decay = 1,
                             .balance_rate = static_cast<float>(options.balance_rate)});
  }
  logits_ = blueprint.keep({rows_, options.count}, DType::f32);
  slots_ = blueprint.keep({rows_, options_.slots}, DType::i32);
  weights_ = blueprint.keep({rows_, options_.slots}, DType::f32);
  if (!blueprint.options().training) return;
  if (balance_.sequence > 0 || balance_.batch > 0 || z_loss_ > 0) blueprint.token_losses = true;
  counts_ = blueprint.keep({sequences_, options.count}, DType::i32);
  pull_ = blueprint.scratch({sequences_, options.count}, DType::f32);
  dlogits_ = split_backward_ ? blueprint.keep({rows_, options.count}, DType::f32)
                             : blueprint.scratch({rows_, options.count}, DType::f32);
}

Tensor Router::choice_bias(const Context& context) const {
  return bias_of_choice_.index < 0 ? Tensor{} : context.params.compute(bias_of_choice_);
}

void Router::forward(const Context& context, const Tensor& normed) const {
  const ParamStore& params = context.params;
  const Tensor logits = context(logits_), slots = context(slots_);
  ops::router_logits(context.stream, logits, normed.reshaped({rows_, hidden_}),
                     params.compute(weight_), bias_.index < 0 ? Tensor{} : params.compute(bias_));
  ops::route(context.stream, slots, context(weights_), logits, choice_bias(context), options_);
  if (!context.training) return;
  const Tensor counts = context(counts_);
  ops::expert_counts(
      context.stream, counts, slots,
      context.batch.padded ? context.batch.document_starts.as<std::int32_t>() : nullptr);
  if (context.recomputing) return;  // already collected
  for (const ParamId id : {load_, bias_of_choice_})
    if (id.index >= 0) ops::add_counts(context.stream, params.gradient(id), counts);
}

Tensor Router::balance_pull(const Context& context) const {
  if (balance_.sequence == 0 && balance_.batch == 0) return {};
  const Tensor pull = context(pull_);
  ops::balance_pull(context.stream, pull, context(counts_), context.params.compute(load_),
                    balance_);
  return pull;
}

void Router::backward(const Context& context, const Tensor& dnormed, std::int64_t first,
                      const Tensor& dweights, const Tensor& normed) const {
  const Tensor dlogits = context(dlogits_), logits = context(logits_);
  ops::route_backward(
      context.stream, dlogits, dweights, context(slots_), logits, balance_pull(context), options_,
      {.z = z_loss_,
       .scale = context.loss.gradient_scale,
       .loss_scale = context.loss.loss_scale,
       .totals = context.token_totals,
       .starts =
           context.batch.padded ? context.batch.document_starts.as<std::int32_t>() : nullptr});
  const std::int64_t experts = dlogits.shape[1], rows = dnormed.shape.rows();
  ops::router_backward_input(
      context.stream, dnormed,
      dlogits.range(first * experts, rows * experts).reshaped({rows, experts}),
      context.params.compute(weight_));
  if (!split_backward_) backward_weight(context, normed);
}

void Router::backward_weight(const Context& context, const Tensor& normed) const {
  const ParamStore& params = context.params;
  if (params.trains(weight_) || (bias_.index >= 0 && params.trains(bias_))) {
    ops::router_backward_weight(context.stream, params.gradient(weight_),
                                bias_.index < 0 ? Tensor{} : params.gradient(bias_),
                                context(dlogits_), normed.reshaped({rows_, hidden_}));
  }
  for (const ParamId id : {bias_of_choice_, load_, bias_, weight_})
    if (id.index >= 0) context.ready(id);
}

}  // namespace trireme
