// SPDX-License-Identifier: Apache-2.0
#include "models/layers/convolution.h"

#include <cmath>

namespace trireme {

Convolution::Convolution(Blueprint& blueprint, std::string_view name, const Shape& input,
                         std::int64_t outputs, std::int64_t window, std::int64_t stride)
    : options_{.stride = stride, .padding = window / 2},
      taps_(static_cast<double>(window * window * input.back())) {
  const auto scope = blueprint.scope(name);
  const Shape weight{outputs, window, window, input.back()};
  const double fan_out = static_cast<double>(window * window * outputs);
  weight_ = blueprint.parameter({.name = "weight",
                                 .shape = weight,
                                 .init = Init::normal(static_cast<float>(std::sqrt(2.0 / fan_out))),
                                 .decay = true,
                                 .matrix = true,
                                 .hidden = true});
  output_ = ops::convolution_output_shape(input, weight, options_);
  workspace_ = blueprint.workspace(ops::convolution_workspace_bytes(
      blueprint.device(), blueprint.compute(), input, weight, options_));
}

void Convolution::forward(const Context& context, const Tensor& y, const Tensor& x) const {
  ops::convolution_forward(context.stream, y, x, context.params.compute(weight_), options_,
                           context(workspace_));
}

void Convolution::backward(const Context& context, const Tensor& dx, const Tensor& dy,
                           const Tensor& x, const Tensor& addend) const {
  ops::convolution_backward_weight(context.stream, context.params.gradient(weight_), dy, x,
                                   options_, context(workspace_));
  context.ready(weight_);
  if (dx.empty()) return;
  ops::convolution_backward_input(context.stream, dx, dy, context.params.compute(weight_), options_,
                                  context(workspace_), addend);
}

double Convolution::forward_flops() const {
  return 2.0 * taps_ * static_cast<double>(output_.count());
}

}  // namespace trireme
