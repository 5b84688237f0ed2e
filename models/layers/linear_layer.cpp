// SPDX-License-Identifier: Apache-2.0
#include "models/layers/linear_layer.h"

#include "runtime/ops/elementwise/elementwise.h"
#include "runtime/ops/gemm/linear.h"

namespace trireme {

Linear::Linear(Blueprint& blueprint, std::string_view name, std::int64_t inputs,
               std::int64_t outputs, Init init, bool bias, const Shape& samples)
    : slabs_(blueprint.spatial(), samples) {
  const auto scope = blueprint.scope(name);
  weight_ = blueprint.parameter(
      {.name = "weight", .shape = {outputs, inputs}, .init = init, .decay = true, .matrix = true});
  if (bias) bias_ = blueprint.parameter({.name = "bias", .shape = {outputs}});
  weight_sum_.emplace(blueprint, Shape{outputs, inputs}, slabs_.cut());
  bias_sum_.emplace(blueprint, Shape{outputs}, slabs_.cut());
}

void Linear::forward(const Context& context, const Tensor& y, const Tensor& x,
                     const Tensor& residual) const {
  const Tensor bias = bias_.index < 0 ? Tensor{} : context.params.added(bias_);
  each_slab(
      [&](std::size_t, const Tensor& to, const Tensor& from, const Tensor& addend) {
        ops::linear_forward(context.stream, to, from, context.params.compute(weight_), bias,
                            addend);
      },
      y, x, residual);
}

void Linear::backward(const Context& context, const Tensor& dx, const Tensor& dy,
                      const Tensor& x) const {
  backward_weight(context, dy, x);
  backward_input(context, dx, dy);
}

void Linear::backward_input(const Context& context, const Tensor& dx, const Tensor& dy) const {
  each_slab(
      [&](std::size_t, const Tensor& to, const Tensor& above) {
        ops::linear_backward_input(context.stream, to, above, context.params.compute(weight_));
      },
      dx, dy);
}

void Linear::backward_weight(const Context& context, const Tensor& dy, const Tensor& x) const {
  const bool bias = bias_.index >= 0 && context.params.trains(bias_);
  const bool weight = context.params.trains(weight_);
  if (weight) weight_sum_->begin(context);
  if (bias) bias_sum_->begin(context);
  each_slab(
      [&](std::size_t i, const Tensor& above, const Tensor& from) {
        const Tensor db = bias ? bias_sum_->part(context, bias_, i) : Tensor{};
        if (weight) {
          ops::linear_backward_weight(context.stream, weight_sum_->part(context, weight_, i), db,
                                      above, from);
        } else if (bias) {
          ops::column_sums(context.stream, db, above);
        }
      },
      dy, x);
  if (bias) bias_sum_->start(context, bias_);
  if (weight) weight_sum_->start(context, weight_);
  if (bias) bias_sum_->finish(context, bias_);
  if (weight) weight_sum_->finish(context, weight_);
}

}  // namespace trireme
