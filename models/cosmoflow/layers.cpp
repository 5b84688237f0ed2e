// SPDX-License-Identifier: Apache-2.0
#include "models/cosmoflow/layers.h"

#include <cmath>

#include "runtime/base/philox.h"
#include "runtime/ops/convolution/pooling.h"
#include "runtime/ops/elementwise/activation.h"
#include "runtime/ops/elementwise/elementwise.h"
#include "runtime/ops/random/dropout.h"

namespace trireme {
namespace {

constexpr std::int64_t window = 3;
const ops::PoolingOptions halving{.window = 2, .stride = 2, .padding = 0};

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
      bias_(blueprint.parameter({.name = "convolution.bias", .shape = {output_shape().back()}})),
      convolved_(blueprint.scratch(convolution_.output_shape())),
      index_(blueprint.keep(output_shape(), DType::u8)),
      pooled_gradient_(blueprint.scratch(output_shape())) {
  if (index == 0 && blueprint.compute() != DType::f32)
    input_ = blueprint.keep(input_of(blueprint, options));
}

void CosmoFlowBlock::forward(const Context& context, const Tensor& x, const Tensor& y) {
  const Tensor convolved = context(convolved_);
  if (input_) ops::cast(context.stream, context(*input_), x);
  convolution_.forward(context, convolved, input_ ? context(*input_) : x);
  ops::max_pool_forward(context.stream, y, context(index_), convolved, halving);
  ops::add_bias_residual(context.stream, y, y, context.params.compute(bias_));
  ops::leaky_relu_forward(context.stream, y, y, slope_);
}

void CosmoFlowBlock::backward(const Context& context, const Tensor& x, const Tensor& y,
                              const Tensor& dy, const Tensor& dx) {
  const Tensor pooled = context(pooled_gradient_), convolved = context(convolved_);
  // y has the sign of the LeakyReLU's input.
  ops::leaky_relu_backward(context.stream, pooled, dy, y, slope_);
  ops::column_sums(context.stream, context.params.gradient(bias_), pooled);
  context.ready(bias_);
  ops::max_pool_backward(context.stream, convolved, pooled, context(index_), halving);
  convolution_.backward(context, dx, convolved, input_ ? context(*input_) : x);
}

CosmoFlowHead::CosmoFlowHead(Blueprint& blueprint, const CosmoFlowOptions& options,
                             const ValueLossChoice& loss)
    : Layer("head", Shape{}),
      slope_(static_cast<float>(options.leaky_slope)),
      dropout_(static_cast<float>(options.dropout)),
      loss_(blueprint, options.targets, loss) {
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
}

double CosmoFlowHead::forward_flops() const {
  double sum = 0;
  for (const Dense& layer : layers_)
    sum += layer.linear.forward_flops(layer.output.shape[0]);
  return sum;
}

void CosmoFlowHead::drop(const Context& context, const Dense& layer, const Tensor& values) const {
  if (!context.training || dropout_ == 0) return;
  ops::dropout(context.stream, values, values, context.batch.sample_ids, context.rng, layer.site,
               dropout_);
}

void CosmoFlowHead::forward(const Context& context, const Tensor& x, const Tensor& /*y*/) {
  Tensor from = flat(x);
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
  Tensor gradient = context(layers_.back().output);
  for (std::size_t i = layers_.size(); i-- > 0;) {
    const Tensor from = i > 0 ? context(layers_[i - 1].output) : flat(x);
    const Tensor to = i > 0 ? context(gradients_[i - 1]) : flat(dx);
    layers_[i].linear.backward(context, to, gradient, from);
    if (i > 0) {
      // Where dropout left a zero, the gradient is zero whatever the slope.
      drop(context, layers_[i - 1], to);
      ops::leaky_relu_backward(context.stream, to, to, from, slope_);
    }
    gradient = to;
  }
}

}  // namespace trireme
