// SPDX-License-Identifier: Apache-2.0
#include "models/cosmoflow/layers.h"

#include "models/heads/dense_head.h"
#include "runtime/ops/elementwise/activation.h"
#include "runtime/ops/elementwise/elementwise.h"

namespace trireme {
namespace {

constexpr std::int64_t window = 3;

Init glorot_of_window(std::int64_t inputs, std::int64_t outputs) {
  constexpr double taps = window * window * window;
  return glorot(taps * static_cast<double>(inputs), taps * static_cast<double>(outputs));
}

Shape input_of(const Blueprint& blueprint, const CosmoFlowOptions& options) {
  const std::int64_t side = options.size;
  if (blueprint.input().rank() > 0) return blueprint.input();
  return {blueprint.micro_batch(), side, side, side, options.channels};
}

Shape output_of(const Shape& x, std::int64_t filters) {
  return {x[0], x[1] / 2, x[2] / 2, x[3] / 2, filters};
}

}  // namespace

CosmoFlowBlock::CosmoFlowBlock(Blueprint& blueprint, const std::string& name,
                               const CosmoFlowOptions& options, std::int64_t index)
    : Layer(name, output_of(input_of(blueprint, options), options.filters << index)),
      slope_(static_cast<float>(options.leaky_slope)),
      convolution_(
          blueprint, "convolution", input_of(blueprint, options), output_shape().back(), window, 1,
          {.init = glorot_of_window(input_of(blueprint, options).back(), output_shape().back())}),
      pooling_(blueprint, convolution_.output_shape(), 2),
      bias_(blueprint.parameter({.name = "convolution.bias", .shape = {output_shape().back()}})),
      outputs_(blueprint.spatial(), output_shape()),
      bias_sum_(blueprint, Shape{output_shape().back()}, outputs_.cut()),
      convolved_(blueprint.scratch(convolution_.output_shape())),
      pooled_gradient_(blueprint.scratch(output_shape())) {
  if (index > 0) return;
  input_.emplace(blueprint, input_of(blueprint, options));
  axes_.assign(3, {options.size, "model.size"});
}

void CosmoFlowBlock::add_limits(ModelLimits& limits) const {
  if (!axes_.empty()) limits.axes = axes_;
}

void CosmoFlowBlock::forward(const Context& context, const Tensor& x, const Tensor& y) {
  const Tensor convolved = context(convolved_);
  convolution_.forward(context, convolved, input_ ? input_->forward(context, x) : x);
  pooling_.forward(context, y, convolved);
  ops::add_bias_residual(context.stream, y, y, context.params.compute(bias_));
  ops::leaky_relu_forward(context.stream, y, y, slope_);
}

void CosmoFlowBlock::backward(const Context& context, const Tensor& x, const Tensor& y,
                              const Tensor& dy, const Tensor& dx) {
  const Tensor pooled = context(pooled_gradient_), convolved = context(convolved_);
  // y has the sign of the LeakyReLU's input.
  ops::leaky_relu_backward(context.stream, pooled, dy, y, slope_);
  bias_sum_.start_columns(context, bias_, outputs_, pooled);
  pooling_.backward(context, convolved, pooled);
  bias_sum_.finish(context, bias_);
  convolution_.backward(context, dx, convolved, input_ ? input_->kept(context, x) : x);
}

}  // namespace trireme
