// SPDX-License-Identifier: Apache-2.0
#include "models/layers/group_norm.h"

namespace trireme {

GroupNorm::GroupNorm(Blueprint& blueprint, std::string_view name, const Shape& input,
                     std::int64_t groups, bool relu)
    : options_{.groups = groups, .relu = relu} {
  const auto scope = blueprint.scope(name);
  const Shape channels{input.back()}, statistics{input[0], input.back()};
  weight_ =
      blueprint.parameter({.name = "weight", .shape = channels, .init = Init::constant(1.0F)});
  bias_ = blueprint.parameter({.name = "bias", .shape = channels});
  mean_ = blueprint.keep(statistics, DType::f32);
  variance_ = blueprint.keep(statistics, DType::f32);
}

ops::BatchNormChannels GroupNorm::channels(const Context& context) const {
  return {context.params.compute(weight_), context.params.compute(bias_), context(mean_),
          context(variance_)};
}

void GroupNorm::forward(const Context& context, const Tensor& y, const Tensor& x) const {
  ops::group_norm_forward(context.stream, y, x, channels(context), options_);
}

void GroupNorm::backward(const Context& context, const Tensor& dx, const Tensor& dy,
                         const Tensor& x) const {
  const ParamStore& params = context.params;
  ops::group_norm_backward(context.stream, dx, params.gradient(weight_), params.gradient(bias_), dy,
                           x, channels(context), options_);
  for (const ParamId id : {bias_, weight_})
    context.ready(id);
}

}  // namespace trireme
