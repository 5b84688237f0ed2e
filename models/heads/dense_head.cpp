// SPDX-License-Identifier: Apache-2.0
#include "models/heads/dense_head.h"

#include <cmath>

#include "runtime/base/philox.h"
#include "runtime/ops/elementwise/activation.h"
#include "runtime/ops/random/dropout.h"

namespace trireme {
namespace {

// (B, everything else).
Tensor flat(const Tensor& x) {
  return x.reshaped({x.shape[0], x.count() / x.shape[0]});
}

Shape input_of(const Blueprint& blueprint, const DenseHeadOptions& options) {
  return blueprint.input().rank() > 0 ? blueprint.input() : options.input;
}

}  // namespace

Init glorot(double fan_in, double fan_out) {
  return Init::uniform(static_cast<float>(std::sqrt(6 / (fan_in + fan_out))));
}

DenseHead::DenseHead(Blueprint& blueprint, const DenseHeadOptions& options, const HeadChoice& head)
    : Layer("head", Shape{}),
      slope_(static_cast<float>(options.leaky_slope)),
      dropout_(static_cast<float>(options.dropout)),
      gather_(blueprint, input_of(blueprint, options), blueprint.compute()),
      loss_(blueprint, head) {
  const Shape input = input_of(blueprint, options);
  if (blueprint.input().rank() == 0) input_.emplace(blueprint, input);
  const std::int64_t samples = input[0];
  std::int64_t inputs = input.count() / samples;
  std::vector<std::int64_t> widths = options.dense;
  widths.push_back(head.outputs);
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

Tensor DenseHead::whole(const Context& context, const Tensor& x) const {
  if (gather_.slabs().cut()) return context(whole_);
  return flat(input_ ? input_->kept(context, x) : x);
}

void DenseHead::drop(const Context& context, const Dense& layer, const Tensor& values) const {
  if (!context.training || dropout_ == 0) return;
  ops::dropout(context.stream, values, values, context.batch.sample_ids, context.rng, layer.site,
               dropout_);
}

void DenseHead::forward(const Context& context, const Tensor& x, const Tensor& /*y*/) {
  Tensor from = input_ ? flat(input_->forward(context, x)) : whole(context, x);
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

void DenseHead::backward(const Context& context, const Tensor& x, const Tensor& /*y*/,
                         const Tensor& /*dy*/, const Tensor& dx) {
  const bool cut = gather_.slabs().cut();
  const Tensor input = cut ? context(whole_gradient_) : input_ ? Tensor{} : flat(dx);
  Tensor gradient = context(layers_.back().output);
  for (std::size_t i = layers_.size(); i-- > 0;) {
    const Tensor from = i > 0 ? context(layers_[i - 1].output) : whole(context, x);
    const Tensor to = i > 0 ? context(gradients_[i - 1]) : input;
    if (i == 0 && input_) return layers_[i].linear.backward_weight(context, gradient, from);
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
