// SPDX-License-Identifier: Apache-2.0
#include "models/layers/convolution.h"

#include <cmath>
#include <vector>

namespace trireme {

Convolution::Convolution(Blueprint& blueprint, std::string_view name, const Shape& input,
                         std::int64_t outputs, std::int64_t window, std::int64_t stride,
                         const FilterOptions& filter)
    : options_{.stride = stride, .padding = window / 2} {
  const auto scope = blueprint.scope(name);
  std::vector<std::int64_t> extents(input.rank(), window);
  extents.front() = outputs;
  extents.back() = input.back();
  const Shape shape(extents);
  taps_ = static_cast<double>(shape.count() / outputs);
  const auto fan_out = static_cast<double>(shape.count() / input.back());
  const Init he = Init::normal(static_cast<float>(std::sqrt(2.0 / fan_out)));
  weight_ = blueprint.parameter({.name = "weight",
                                 .shape = shape,
                                 .init = filter.init.value_or(he),
                                 .decay = filter.decay,
                                 .matrix = true,
                                 .hidden = true});
  output_ = ops::convolution_output_shape(input, shape, options_);
  workspace_ = blueprint.workspace(ops::convolution_workspace_bytes(
      blueprint.device(), blueprint.compute(), input, shape, options_));
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
