// SPDX-License-Identifier: Apache-2.0
#include "models/layers/batch_norm.h"

namespace trireme {

BatchNorm::BatchNorm(Blueprint& blueprint, std::string_view name, const Shape& input, bool relu,
                     float initial_scale)
    : per_channel_(input.rows()), options_{.relu = relu} {
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

void BatchNorm::forward(const Context& context, const Tensor& y, const Tensor& x) const {
  const ParamStore& params = context.params;
  const Tensor gamma = params.compute(weight_), beta = params.compute(bias_);
  if (!context.training) {
    ops::batch_norm_inference(context.stream, y, x, gamma, beta, params.compute(running_mean_),
                              params.compute(running_variance_), options_);
    return;
  }
  const Tensor mean = context(mean_), variance = context(variance_);
  ops::batch_norm_forward(context.stream, y, mean, variance, x, gamma, beta, options_);
  if (context.recomputing) return;  // collected the first time
  ops::batch_norm_collect(context.stream, params.gradient(running_mean_),
                          params.gradient(running_variance_), mean, variance, per_channel_,
                          context.statistic_weight);
}

void BatchNorm::backward(const Context& context, const Tensor& dx, const Tensor& dy,
                         const Tensor& x, const Tensor& y) const {
  const ParamStore& params = context.params;
  ops::batch_norm_backward(context.stream, dx, params.gradient(weight_), params.gradient(bias_), dy,
                           x, y, params.compute(weight_), context(mean_), context(variance_),
                           options_);
  for (const ParamId id : {running_variance_, running_mean_, bias_, weight_})
    context.ready(id);
}

}  // namespace trireme
