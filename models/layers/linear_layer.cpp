// SPDX-License-Identifier: Apache-2.0
#include "models/layers/linear_layer.h"

#include "runtime/ops/gemm/linear.h"

namespace trireme {

Linear::Linear(Blueprint& blueprint, std::string_view name, std::int64_t inputs,
               std::int64_t outputs, Init init, bool bias)
    : inputs_(inputs), outputs_(outputs) {
  const auto scope = blueprint.scope(name);
  weight_ = blueprint.parameter(
      {.name = "weight", .shape = {outputs, inputs}, .init = init, .decay = true, .matrix = true});
  if (bias) bias_ = blueprint.parameter({.name = "bias", .shape = {outputs}});
}

void Linear::forward(const Context& context, const Tensor& y, const Tensor& x,
                     const Tensor& residual) const {
  const Tensor bias = bias_.index < 0 ? Tensor{} : context.params.added(bias_);
  ops::linear_forward(context.stream, y, x, context.params.compute(weight_), bias, residual);
}

void Linear::backward(const Context& context, const Tensor& dx, const Tensor& dy,
                      const Tensor& x) const {
  backward_weight(context, dy, x);
  backward_input(context, dx, dy);
}

void Linear::backward_input(const Context& context, const Tensor& dx, const Tensor& dy) const {
  ops::linear_backward_input(context.stream, dx, dy, context.params.compute(weight_));
}

void Linear::backward_weight(const Context& context, const Tensor& dy, const Tensor& x) const {
  const Tensor db = bias_.index < 0 ? Tensor{} : context.params.gradient(bias_);
  ops::linear_backward_weight(context.stream, context.params.gradient(weight_), db, dy, x);
  if (bias_.index >= 0) context.ready(bias_);
  context.ready(weight_);
}

double Linear::forward_flops(std::int64_t rows) const {
  return 2.0 * static_cast<double>(rows) * static_cast<double>(inputs_) *
         static_cast<double>(outputs_);
}

}  // namespace trireme
