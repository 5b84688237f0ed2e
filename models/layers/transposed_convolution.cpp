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
  windows_.emplace(blueprint, output, input, Windows{.window = window, .stride = window},
                   blueprint.compute(), /*keep=*/false);
  flops_ /= static_cast<double>(windows_->ranks());
  weight_sum_.emplace(blueprint, weight, windows_->y().cut());
  bias_sum_.emplace(blueprint, Shape{output.back()}, windows_->x().cut());
  workspace_ = convolution_workspace(blueprint, *windows_, weight, options_);
}

void TransposedConvolution::forward(const Context& context, const Tensor& y,
                                    const Tensor& x) const {
  windows_->each_x(
      context, y, x, [&](const Tensor& to, const Tensor& from, const ops::PerAxis& padding, auto) {
        ops::convolution_backward_input(context.stream, to, from, context.params.compute(weight_),
                                        with_padding(options_, padding), context(workspace_));
      });
  ops::add_bias_residual(context.stream, y, y, context.params.compute(bias_));
}

void TransposedConvolution::backward(const Context& context, const Tensor& dx, const Tensor& dy,
                                     const Tensor& x) const {
  bias_sum_->begin(context);
  const Slabs &outputs = windows_->x(), &inputs = windows_->y();
  for (std::size_t i = 0; i < outputs.local().size(); ++i)
    ops::column_sums(context.stream, bias_sum_->part(context, bias_, i),
                     outputs.of(dy, outputs.local()[i]));
  bias_sum_->start(context, bias_);
  weight_sum_->begin(context);
  windows_->each_y(
      context, dx, dy, true,
      [&](const Tensor& to, const Tensor& above, const ops::PerAxis& padding, std::size_t i) {
        const Tensor from = inputs.of(x, inputs.local()[i]);
        ops::convolution_backward_weight(context.stream, weight_sum_->part(context, weight_, i),
                                         from, above, with_padding(options_, padding),
                                         context(workspace_));
        ops::convolution_forward(context.stream, to, above, context.params.compute(weight_),
                                 with_padding(options_, padding), context(workspace_));
      });
  weight_sum_->start(context, weight_);
  bias_sum_->finish(context, bias_);
  weight_sum_->finish(context, weight_);
}

}  // namespace trireme
