// SPDX-License-Identifier: Apache-2.0
#include "models/layers/batch_norm.h"

#include "runtime/ops/elementwise/elementwise.h"
#include "runtime/ops/random/init.h"

namespace trireme {

void write_statistics(const Context& context, const Tensor& part, const Tensor& x) {
  const Shape row{part.shape[1]};
  ops::batch_norm_statistics(context.stream, block_of(part, 0, row), block_of(part, 1, row), x);
  ops::fill_constant(context.stream, block_of(part, 2, row), static_cast<float>(x.shape.rows()));
}

BatchNorm::BatchNorm(Blueprint& blueprint, std::string_view name, const Shape& input, bool relu,
                     float initial_scale)
    : slabs_(blueprint.spatial(), input), options_{.relu = relu} {
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
  if (!slabs_.cut() || !blueprint.options().training) return;
  statistics_ = SlabParts(blueprint, slabs_, 3, channels[0]);
  sums_ = SlabParts(blueprint, slabs_, 2, channels[0]);
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
  if (!slabs_.cut()) {
    ops::batch_norm_statistics(context.stream, channels.mean, channels.variance, x, running);
    return channels;
  }
  for (std::size_t i = 0; i < slabs_.local().size(); ++i) {
    write_statistics(context, statistics_.own(context, i),
                     as_image(slabs_.of(x, slabs_.local()[i])));
  }
  ops::batch_norm_join(context.stream, channels.mean, channels.variance,
                       statistics_.gather(context), running);
  return channels;
}

ops::NormParts BatchNorm::gradient_sums(const Context& context, const Tensor& dy, const Tensor& x,
                                        const ops::BatchNormChannels& channels,
                                        const ops::BatchNormOptions& options) const {
  for (std::size_t i = 0; i < slabs_.local().size(); ++i) {
    const Slabs::Slab& slab = slabs_.local()[i];
    ops::batch_norm_gradient_sums(context.stream, sums_.own(context, i),
                                  as_image(slabs_.of(dy, slab)), as_image(slabs_.of(x, slab)),
                                  channels, options);
  }
  return {sums_.gather(context), slabs_.whole().rows()};
}

void BatchNorm::forward(const Context& context, const Tensor& y, const Tensor& x,
                        const ops::BatchNormSummand& summand) const {
  const Tensor image = as_image(x);
  ops::batch_norm_apply(context.stream, as_image(y), image, take_statistics(context, image),
                        options_, {as_image(summand.x), summand.channels});
}

void BatchNorm::backward(const Context& context, const Tensor& dx, const Tensor& dy,
                         const Tensor& x, const Tensor& sum) const {
  const ParamStore& params = context.params;
  const ops::BatchNormChannels channels{params.compute(weight_), params.compute(bias_),
                                        context(mean_), context(variance_)};
  const Tensor dgamma = params.gradient(weight_), dbeta = params.gradient(bias_);
  const Tensor to = as_image(dx), from = as_image(dy), image = as_image(x), result = as_image(sum);
  if (slabs_.cut()) {
    ops::BatchNormOptions options = options_;
    if (!sum.empty()) {
      ops::relu_backward(context.stream, dy, dy, sum);
      options.relu = false;
    }
    ops::batch_norm_backward(context.stream, to, dgamma, dbeta, from, image, channels, options, {},
                             gradient_sums(context, dy, x, channels, options));
  } else {
    ops::batch_norm_backward(context.stream, to, dgamma, dbeta, from, image, channels, options_,
                             result);
  }
  for (const ParamId id : {running_variance_, running_mean_, bias_, weight_})
    context.ready(id);
}

}  // namespace trireme
