// SPDX-License-Identifier: Apache-2.0
#include "models/layers/batch_norm.h"

#include "runtime/ops/random/init.h"

namespace trireme {

BatchNorm::BatchNorm(Blueprint& blueprint, std::string_view name, const Shape& input, bool relu,
                     float initial_scale)
    : slabs_(blueprint.spatial(), input), rank_(blueprint.spatial().rank), options_{.relu = relu} {
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
  const auto parts = static_cast<std::int64_t>(slabs_.all().size());
  statistics_ = blueprint.scratch(Shape{parts, 3, channels[0]}, DType::f32);
  sums_ = blueprint.scratch(Shape{parts, 2, channels[0]}, DType::f32);
}

Tensor BatchNorm::own_parts(const Tensor& parts) const {
  const auto local = static_cast<std::int64_t>(slabs_.local().size());
  return block_of(parts, rank_, {local, parts.shape[1], parts.shape[2]});
}

void BatchNorm::gather_parts(const Context& context, const Tensor& parts) const {
  if (context.tensor != nullptr)
    context.tensor->all_gather(context.stream, own_parts(parts), parts);
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
  const Tensor parts = context(statistics_), own = own_parts(parts);
  const Shape row{own.shape[2]};
  for (std::size_t i = 0; i < slabs_.local().size(); ++i) {
    const Tensor slab = as_image(slabs_.of(x, slabs_.local()[i]));
    const Tensor part = block_of(own, static_cast<std::int64_t>(i), {3, row[0]});
    ops::batch_norm_statistics(context.stream, block_of(part, 0, row), block_of(part, 1, row),
                               slab);
    ops::fill_constant(context.stream, block_of(part, 2, row),
                       static_cast<float>(slab.shape.rows()));
  }
  gather_parts(context, parts);
  ops::batch_norm_join(context.stream, channels.mean, channels.variance, parts, running);
  return channels;
}

ops::BatchNormSums BatchNorm::gradient_sums(const Context& context, const Tensor& dy,
                                            const Tensor& x,
                                            const ops::BatchNormChannels& channels) const {
  if (!slabs_.cut()) return {};
  const Tensor parts = context(sums_), own = own_parts(parts);
  for (std::size_t i = 0; i < slabs_.local().size(); ++i) {
    const Slabs::Slab& slab = slabs_.local()[i];
    ops::batch_norm_gradient_sums(
        context.stream, block_of(own, static_cast<std::int64_t>(i), {2, own.shape[2]}),
        as_image(slabs_.of(dy, slab)), as_image(slabs_.of(x, slab)), channels, options_);
  }
  gather_parts(context, parts);
  return {parts, slabs_.whole().rows()};
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
  const auto sums = gradient_sums(context, dy, x, channels);
  ops::batch_norm_backward(context.stream, as_image(dx), params.gradient(weight_),
                           params.gradient(bias_), as_image(dy), as_image(x), channels, options_,
                           as_image(sum), sums);
  for (const ParamId id : {running_variance_, running_mean_, bias_, weight_})
    context.ready(id);
}

}  // namespace trireme
