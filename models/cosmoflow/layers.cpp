// SPDX-License-Identifier: Apache-2.0
#include "models/cosmoflow/layers.h"

#include <cmath>

#include "runtime/base/philox.h"
#include "runtime/ops/elementwise/activation.h"
#include "runtime/ops/elementwise/elementwise.h"
#include "runtime/ops/random/dropout.h"

namespace trireme {
namespace {

constexpr std::int64_t window = 3;

// Glorot & Bengio, 2010; Keras' default.
Init glorot(double fan_in, double fan_out) {
  return Init::uniform(static_cast<float>(std::sqrt(6 / (fan_in + fan_out))));
}

Init glorot_of_window(std::int64_t inputs, std::int64_t outputs) {
  constexpr double taps = window * window * window;
  return glorot(taps * static_cast<double>(inputs), taps * static_cast<double>(outputs));
}

// (B, everything else).
Tensor flat(const Tensor& x) {
  return x.reshaped({x.shape[0], x.count() / x.shape[0]});
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
          {.init = glorot_of_window(input_of(blueprint, options).back(), output_shape().back()),
           .decay = false}),
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

CosmoFlowHead::CosmoFlowHead(Blueprint& blueprint, const CosmoFlowOptions& options,
                             const ValueLossChoice& loss)
    : Layer("head", Shape{}),
      slope_(static_cast<float>(options.leaky_slope)),
      dropout_(static_cast<float>(options.dropout)),
      ranks_(static_cast<double>(blueprint.spatial().rank_count())),
      gather_(blueprint, blueprint.input(), blueprint.compute()),
      loss_(blueprint, {options.targets}, loss) {
  const Shape& input = blueprint.input();
  const std::int64_t samples = input[0];
  std::int64_t inputs = input.count() / samples;
  std::vector<std::int64_t> widths = options.dense;
  widths.push_back(options.targets);
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const std::string name = fmt::format("dense.{}", i);
    const std::int64_t outputs = widths[i];
    const std::string site = blueprint.full_name(name);
    layers_.push_back(
        {.linear = Linear(blueprint, name, inputs, outputs,
                          glorot(static_cast<double>(inputs), static_cast<double>(outputs))),
         .site = stable_id(site.data(), site.size()),
         .output = blueprint.keep({samples, outputs})});
    if (i + 1 < widths.size()) gradients_.push_back(blueprint.scratch({samples, outputs}));
    inputs = outputs;
  }
  info_ = loss_.head(layers_.back().output);
  if (!gather_.slabs().cut()) return;
  whole_ = blueprint.keep(Shape{samples, input.count() / samples});
  whole_gradient_ = blueprint.scratch(whole_.shape);
}

Tensor CosmoFlowHead::whole(const Context& context, const Tensor& x) const {
  return gather_.slabs().cut() ? context(whole_) : flat(x);
}

double CosmoFlowHead::forward_flops() const {
  double sum = 0;
  for (const Dense& layer : layers_)
    sum += layer.linear.forward_flops(layer.output.shape[0]);
  return sum / ranks_;
}

void CosmoFlowHead::drop(const Context& context, const Dense& layer, const Tensor& values) const {
  if (!context.training || dropout_ == 0) return;
  ops::dropout(context.stream, values, values, context.batch.sample_ids, context.rng, layer.site,
               dropout_);
}

void CosmoFlowHead::forward(const Context& context, const Tensor& x, const Tensor& /*y*/) {
  Tensor from = whole(context, x);
  if (gather_.slabs().cut()) gather_.gather(context, from, x);
  for (const Dense& layer : layers_) {
    const Tensor to = context(layer.output);
    layer.linear.forward(context, to, from);
    if (&layer != &layers_.back()) {
      ops::leaky_relu_forward(context.stream, to, to, slope_);
      drop(context, layer, to);
    }
    from = to;
  }
  loss_.forward(context, from);
}

void CosmoFlowHead::backward(const Context& context, const Tensor& x, const Tensor& /*y*/,
                             const Tensor& /*dy*/, const Tensor& dx) {
  const bool cut = gather_.slabs().cut();
  const Tensor input = cut ? context(whole_gradient_) : flat(dx);
  Tensor gradient = context(layers_.back().output);
  for (std::size_t i = layers_.size(); i-- > 0;) {
    const Tensor from = i > 0 ? context(layers_[i - 1].output) : whole(context, x);
    const Tensor to = i > 0 ? context(gradients_[i - 1]) : input;
    layers_[i].linear.backward(context, to, gradient, from);
    if (i > 0) {
      // Where dropout left a zero, the gradient is zero whatever the slope.
      drop(context, layers_[i - 1], to);
      ops::leaky_relu_backward(context.stream, to, to, from, slope_);
    }
    gradient = to;
  }
  if (cut) gather_.take(context, dx, input);
}

}  // namespace trireme
