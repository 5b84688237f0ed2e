// SPDX-License-Identifier: Apache-2.0
#include "models/layers/layer_norm.h"

#include "runtime/ops/layer_norm.h"

namespace trireme {

LayerNorm::LayerNorm(Blueprint& blueprint, std::string_view name, std::int64_t rows,
                     std::int64_t width) {
  const auto scope = blueprint.scope(name);
  weight_ = blueprint.parameter({.name = "weight", .shape = {width}, .init = Init::constant(1)});
  bias_ = blueprint.parameter({.name = "bias", .shape = {width}});
  mean_ = blueprint.keep(Shape{rows}, DType::f32);
  rstd_ = blueprint.keep(Shape{rows}, DType::f32);
}

void LayerNorm::forward(const Context& context, const Tensor& y, const Tensor& x) const {
  ops::layer_norm_forward(context.stream, y, context(mean_), context(rstd_), x,
                          context.params.compute(weight_), context.params.compute(bias_));
}

void LayerNorm::backward(const Context& context, const Tensor& dx, const Tensor& dy,
                         const Tensor& x, bool accumulate) const {
  ops::layer_norm_backward(context.stream, dx, context.params.gradient(weight_),
                           context.params.gradient(bias_), dy, x, context.params.compute(weight_),
                           context(mean_), context(rstd_), accumulate);
  context.ready(bias_);
  context.ready(weight_);
}

}  // namespace trireme
