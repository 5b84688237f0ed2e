// SPDX-License-Identifier: Apache-2.0
#include "models/layers/transposed_convolution.h"

#include <cmath>
#include <vector>

#include "runtime/ops/elementwise/elementwise.h"

namespace trireme {

// The ops of a convolution from the output to the input: its input gradient is the forward here.
TransposedConvolution::TransposedConvolution(Blueprint& blueprint, std::string_view name,
                                             std::int64_t inputs, const Shape& output,
                                             std::int64_t window)
    : options_{.stride = window} {
  const auto scope = blueprint.scope(name);
  std::vector<std::int64_t> extents(output.rank(), window);
  extents.front() = inputs;
  extents.back() = output.back();
  const Shape weight(extents);
  const float std = std::sqrt(2.0F / static_cast<float>(inputs));
  weight_ = blueprint.parameter({.name = "weight",
                                 .shape = weight,
                                 .init = Init::normal(std),
                                 .decay = true,
                                 .matrix = true,
                                 .hidden = true});
  bias_ = blueprint.parameter({.name = "bias", .shape = {output.back()}});
  const Shape input = ops::convolution_output_shape(output, weight, options_);
  flops_ = 2.0 * static_cast<double>(input.count()) * static_cast<double>(weight.count() / inputs);
  workspace_ = blueprint.workspace(ops::convolution_workspace_bytes(
      blueprint.device(), blueprint.compute(), output, weight, options_));
}

void TransposedConvolution::forward(const Context& context, const Tensor& y,
                                    const Tensor& x) const {
  ops::convolution_backward_input(context.stream, y, x, context.params.compute(weight_), options_,
                                  context(workspace_));
  ops::add_bias_residual(context.stream, y, y, context.params.compute(bias_));
}

void TransposedConvolution::backward(const Context& context, const Tensor& dx, const Tensor& dy,
                                     const Tensor& x) const {
  ops::column_sums(context.stream, context.params.gradient(bias_), dy);
  context.ready(bias_);
  ops::convolution_backward_weight(context.stream, context.params.gradient(weight_), x, dy,
                                   options_, context(workspace_));
  context.ready(weight_);
  ops::convolution_forward(context.stream, dx, dy, context.params.compute(weight_), options_,
                           context(workspace_));
}

}  // namespace trireme
