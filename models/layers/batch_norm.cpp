// SPDX-License-Identifier: Apache-2.0
#include "models/layers/batch_norm.h"

namespace trireme {

BatchNorm::BatchNorm(Blueprint& blueprint, std::string_view name, const Shape& input, bool relu,
                     float initial_scale)
    : options_{.relu = relu} {
  const auto scope = blueprint.scope(name);
  const Shape channels{input.back()};
  weight_ = blueprint.parameter(
      {.name = "weight", .shape = channels, .init = Init::constant(initial_scale)});
  bias_ = blueprint.parameter({.name = "bias", .shape = channels});
  running_mean_ = blueprint.parameter(
      {.name = "running_mean", .shape = channels, .kind = ParamKind::statistic});
  running_variance_ = blueprint.parameter({.name = "running_variance",
                                           .shape = channels,
                                           .init = Init::constant(1),
                                           .kind = ParamKind::statistic});
  mean_ = blueprint.keep(channels, DType::f32);
  variance_ = blueprint.keep(channels, DType::f32);
}

ops::BatchNormChannels BatchNorm::take_statistics(const Context& context, const Tensor& x) const {
  const ParamStore& params = context.params;
  const Tensor gamma = params.compute(weight_), beta = params.compute(bias_);
  if (!context.training)
    return {gamma, beta, params.compute(running_mean_), params.compute(running_variance_)};
  const ops::BatchNormChannels channels{gamma, beta, context(mean_), context(variance_)};
  ops::BatchNormRunning running{.weight = context.statistic_weight};
  if (!context.recomputing) {  // otherwise already collected
    running.mean_sum = params.gradient(running_mean_);
    running.variance_sum = params.gradient(running_variance_);
  }
  ops::batch_norm_statistics(context.stream, channels.mean, channels.variance, x, running);
  return channels;
}

void BatchNorm::forward(const Context& context, const Tensor& y, const Tensor& x,
                        const ops::BatchNormSummand& summand) const {
  ops::batch_norm_apply(context.stream, y, x, take_statistics(context, x), options_, summand);
}

void BatchNorm::backward(const Context& context, const Tensor& dx, const Tensor& dy,
                         const Tensor& x, const Tensor& sum) const {
  const ParamStore& params = context.params;
  ops::batch_norm_backward(
      context.stream, dx, params.gradient(weight_), params.gradient(bias_), dy, x,
      {params.compute(weight_), params.compute(bias_), context(mean_), context(variance_)},
      options_, sum);
  for (const ParamId id : {running_variance_, running_mean_, bias_, weight_})
    context.ready(id);
}

}  // namespace trireme
