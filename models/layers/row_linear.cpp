// SPDX-License-Identifier: Apache-2.0
#include "models/layers/row_linear.h"

#include "models/layers/blocks.h"
#include "runtime/ops/elementwise/activation.h"
#include "runtime/ops/elementwise/elementwise.h"

namespace trireme {

RowLinear::RowLinear(Blueprint& blueprint, std::string_view name, std::int64_t inputs, bool bias,
                     Init init, const PartialSum& sum)
    : sum_(sum),
      blocked_(blueprint.tensor().blocked()),
      split_backward_(blueprint.splits_backward()),
      blocks_(blueprint.tensor().local()),
      block_{sum.rows().whole()[0], sum.rows().whole()[1], inputs / blueprint.tensor().blocks},
      weight_block_{sum.rows().whole()[2], block_[2]},
      matmul_(blueprint, LinearKind::row, block_.rows(), weight_block_, blocks_,
              blueprint.fp8().on) {
  const std::int64_t outputs = weight_block_[0];
  const auto scope = blueprint.scope(name);
  weight_ = blueprint.parameter({.name = "weight",
                                 .shape = {outputs, inputs},
                                 .init = init,
                                 .decay = true,
                                 .matrix = true,
                                 .hidden = true,
                                 .shard_axis = 1});
  if (blueprint.adapts(name))
    adapter_.emplace(blueprint, AdaptedWeight{.outputs = outputs,
                                              .inputs = inputs,
                                              .axis = 1,
                                              .samples = {block_[0], block_[1]},
                                              .chunks = sum.chunks(),
                                              .held = sum.chunks() > 1 ? matmul_.held_bytes() : 0});
  if (bias) bias_ = blueprint.parameter({.name = "bias", .shape = {outputs}});
}

void RowLinear::forward(const Context& context, const Tensor& y, const Tensor& x,
                        const Tensor& residual, const Tensor& x_amax) const {
  const Tensor weight = context.params.compute(weight_);
  if (!blocked_) {
    const Tensor bias = bias_.index < 0 ? Tensor{} : context.params.added(bias_);
    matmul_.forward(context, 0, y, x, weight, bias, residual, value_of(x_amax, 0));
    if (adapter_) adapter_->forward(context, {y}, {x});
    return;
  }
  multiply(context, x, weight, x_amax);
  const Tensor bias = bias_.index < 0 ? Tensor{} : context.params.compute(bias_);
  ops::add_bias_residual(context.stream, y, sum_.finish(context), bias, residual);
}

// Writes the blocks' products, to be summed.
void RowLinear::multiply(const Context& context, const Tensor& x, const Tensor& weight,
                         const Tensor& x_amax) const {
  const auto multiply = [&](std::int64_t b, const RowRun& run, const Tensor& to) {
    matmul_.forward(context, b, to, block_of(x, b, block_), block_of(weight, b, weight_block_), {},
                    {}, value_of(x_amax, b), run);
  };
  sum_.start(context, matmul_.by_block(), multiply, [&](const RowRun& run, const Tensor& all) {
    if (adapter_) adapter_->forward(context, {all, blocks_}, {x, blocks_, run});
  });
}

void RowLinear::backward_gelu(const Context& context, const Tensor& dx, const Tensor& dy,
                              const Tensor& x, const Tensor& pre, const Tensor& dy_amax,
                              const Tensor& dx_amax) const {
  if (!split_backward_) accumulate(context, dy, x, dy_amax);
  const Tensor weight = context.params.compute(weight_);
  const bool fused = !pre.empty() && !adapter_;
  for (std::int64_t b = 0; b < blocks_; ++b) {
    matmul_.backward_input(
        context, b, block_of(dx, b, block_), dy, block_of(weight, b, weight_block_),
        fused ? block_of(pre, b, block_) : Tensor{},
        {.operand = value_of(dy_amax, 0), .result = fused ? value_of(dx_amax, b) : Tensor{}});
  }
  if (!adapter_) return;
  adapter_->backward_input(context, {dx, blocks_}, {dy});
  if (pre.empty()) return;
  for (std::int64_t b = 0; b < blocks_; ++b) {
    const Tensor gradient = block_of(dx, b, block_);
    ops::activation_backward(context.stream, gradient, gradient, block_of(pre, b, block_),
                             ops::ActivationKind::gelu_tanh, value_of(dx_amax, b));
  }
}

void RowLinear::backward_weight(const Context& context, const Tensor& dy, const Tensor& x) const {
  accumulate(context, dy, x, {});
}

void RowLinear::accumulate(const Context& context, const Tensor& dy, const Tensor& x,
                           const Tensor& dy_amax) const {
  if (adapter_) adapter_->backward_weight(context, {dy}, {x, blocks_});
  const Tensor db = trained_gradient(context, bias_), dw = trained_gradient(context, weight_);
  const bool with_bias = !blocked_ && !dw.empty();
  for (std::int64_t b = 0; !dw.empty() && b < blocks_; ++b) {
    matmul_.backward_weight(context, b, block_of(dw, b, weight_block_), with_bias ? db : Tensor{},
                            dy, block_of(x, b, block_), value_of(dy_amax, 0));
  }
  if (!with_bias && !db.empty()) ops::column_sums(context.stream, db, dy);
  if (bias_.index >= 0) context.ready(bias_);
  context.ready(weight_);
}

}  // namespace trireme
