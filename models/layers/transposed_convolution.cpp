// SPDX-License-Identifier: Apache-2.0
#include "models/layers/transposed_convolution.h"

#include <cmath>
#include <vector>

#include "runtime/ops/elementwise/elementwise.h"

namespace trireme {

// The ops of a convolution from the output to the input: its input gradient is the forward here.
TransposedConvolution::TransposedConvolution(Blueprint& blueprint, std::string_view name,
                                             std::int64_t inputs, const Shape& output,
                                             std::int64_t window, const TransposedOptions& options)
    : output_(output),
      options_{.stride = options.stride > 0 ? options.stride : window, .padding = options.padding} {
  const auto scope = blueprint.scope(name);
  std::vector<std::int64_t> extents(output.rank(), window);
  extents.front() = inputs;
  extents.back() = output.back();
  const Shape weight(extents);
  const Init he = Init::normal(std::sqrt(2.0F / static_cast<float>(inputs)));
  weight_ = blueprint.parameter({.name = "weight",
                                 .shape = weight,
                                 .init = options.init.value_or(he),
                                 .decay = true,
                                 .matrix = true,
                                 .hidden = true});
  if (options.bias) bias_ = blueprint.parameter({.name = "bias", .shape = {output.back()}});
  const Shape input = ops::convolution_output_shape(output, weight, options_);
  windows_.emplace(
      blueprint, output, input,
      Windows{.window = window, .stride = options_.stride, .padding = options_.padding},
      blueprint.compute(), /*keep=*/false);
  weight_sum_.emplace(blueprint, weight, windows_->y().cut());
  if (options.bias) bias_sum_.emplace(blueprint, Shape{output.back()}, windows_->x().cut());
  workspace_ = convolution_workspace(blueprint, *windows_, weight, options_);
}

void TransposedConvolution::forward(const Context& context, const Tensor& y,
                                    const Tensor& x) const {
  windows_->each_x(
      context, y, x, [&](const Tensor& to, const Tensor& from, const ops::PerAxis& padding, auto) {
        ops::convolution_backward_input(context.stream, to, from, context.params.compute(weight_),
                                        with_padding(options_, padding), context(workspace_));
      });
  if (bias_.index >= 0) ops::add_bias_residual(context.stream, y, y, context.params.compute(bias_));
}

void TransposedConvolution::backward(const Context& context, const Tensor& dx, const Tensor& dy,
                                     const Tensor& x) const {
  const bool bias = bias_sum_ && context.params.trains(bias_);
  const bool weight = context.params.trains(weight_);
  if (bias) bias_sum_->start_columns(context, bias_, windows_->x(), dy);
  if (weight) weight_sum_->begin(context);
  const Slabs& inputs = windows_->y();
  windows_->each_y(
      context, dx, dy, true,
      [&](const Tensor& to, const Tensor& above, const ops::PerAxis& padding, std::size_t i) {
        const Tensor from = inputs.of(x, inputs.local()[i]);
        if (weight)
          ops::convolution_backward_weight(context.stream, weight_sum_->part(context, weight_, i),
                                           from, above, with_padding(options_, padding),
                                           context(workspace_));
        ops::convolution_forward(context.stream, to, above, context.params.compute(weight_),
                                 with_padding(options_, padding), context(workspace_));
      });
  if (weight) weight_sum_->start(context, weight_);
  if (bias) bias_sum_->finish(context, bias_);
  if (weight) weight_sum_->finish(context, weight_);
}

}  // namespace trireme
