// SPDX-License-Identifier: Apache-2.0
#include "models/layers/column_linear.h"

#include "models/layers/blocks.h"
#include "runtime/ops/elementwise/elementwise.h"

namespace trireme {

ColumnLinear::ColumnLinear(Blueprint& blueprint, ParamId weight, std::int64_t outputs,
                           const PartialSum& sum, bool fp8)
    : sum_(sum),
      blocked_(blueprint.tensor().blocked()),
      split_backward_(blueprint.splits_backward()),
      blocks_(blueprint.tensor().local()),
      block_{sum.rows().whole()[0], sum.rows().whole()[1], outputs / blueprint.tensor().blocks},
      weight_block_{block_[2], sum.rows().whole()[2]},
      matmul_(blueprint, LinearKind::column, block_.rows(), weight_block_, blocks_, fp8),
      weight_(weight) {}

ColumnLinear::ColumnLinear(Blueprint& blueprint, std::string_view name,
                           const ColumnOptions& options, Init init, const PartialSum& sum)
    : ColumnLinear(blueprint, ParamId{}, options.outputs, sum, blueprint.fp8().on) {
  const auto scope = blueprint.scope(name);
  weight_ = blueprint.parameter({.name = "weight",
                                 .shape = {options.outputs, weight_block_[1]},
                                 .init = init,
                                 .decay = true,
                                 .matrix = true,
                                 .hidden = true,
                                 .shard_axis = 0,
                                 .shard_parts = options.parts,
                                 .shard_lead = options.lead,
                                 .fused = options.fused});
  adapt(blueprint, name, options);
  if (!options.bias) return;
  bias_ = blueprint.parameter({.name = "bias",
                               .shape = {options.outputs},
                               .shard_axis = 0,
                               .shard_parts = options.parts,
                               .shard_lead = options.lead,
                               .fused = options.fused});
}

// In a block the parts lie beside each other.
void ColumnLinear::adapt(Blueprint& blueprint, std::string_view name,
                         const ColumnOptions& options) {
  AdaptedWeight weight{.outputs = options.outputs,
                       .inputs = weight_block_[1],
                       .parts = options.parts,
                       .lead = options.lead,
                       .fused = options.fused,
                       .samples = {block_[0], block_[1]},
                       .chunks = sum_.chunks(),
                       .held = sum_.chunks() > 1 ? matmul_.held_bytes() : 0};
  if (blueprint.adapts(name)) adapters_.emplace_back(blueprint, weight);
  const std::int64_t unit = options.outputs / (options.parts - 1 + options.lead);
  weight.width = block_[2];
  weight.parts = weight.lead = 1;
  for (std::size_t i = 0; i < options.part_names.size(); ++i) {
    weight.outputs = i == 0 ? options.lead * unit : unit;
    const std::string_view part = options.part_names[i];
    if (blueprint.adapts(part)) {
      const auto scope = blueprint.scope(part);
      adapters_.emplace_back(blueprint, weight);
    }
    weight.before += weight.outputs / blueprint.tensor().blocks;
  }
}

void ColumnLinear::forward(const Context& context, const Tensor& y, const Tensor& x,
                           const Tensor& x_amax) const {
  const Tensor weight = context.params.compute(weight_);
  for (std::int64_t b = 0; b < blocks_; ++b) {
    matmul_.forward(context, b, block_of(y, b, block_), x, block_of(weight, b, weight_block_),
                    bias_block(context, b), {}, value_of(x_amax, 0));
  }
  for (const LowRankAdapter& adapter : adapters_)
    adapter.forward(context, {y, blocks_}, {x});
}

void ColumnLinear::forward_gelu(const Context& context, const Tensor& y, const Tensor& pre,
                                const Tensor& x, const Tensor& x_amax, const Tensor& y_amax) const {
  TRIREME_EXPECTS(adapters_.empty(), "an adapter adds to what GELU reads");
  const Tensor weight = context.params.compute(weight_);
  for (std::int64_t b = 0; b < blocks_; ++b) {
    matmul_.forward_gelu(context, b, block_of(y, b, block_), block_of(pre, b, block_), x,
                         block_of(weight, b, weight_block_), bias_block(context, b),
                         {.operand = value_of(x_amax, 0), .result = value_of(y_amax, b)});
  }
}

Tensor ColumnLinear::bias_block(const Context& context, std::int64_t b) const {
  if (bias_.index < 0) return {};
  return block_of(context.params.added(bias_), b, Shape{weight_block_[0]});
}

void ColumnLinear::backward(const Context& context, const Tensor& dx, const Tensor& dy,
                            const Tensor& x, const Tensor& dy_amax) const {
  const Tensor weight = context.params.compute(weight_);
  const auto multiply = [&](std::int64_t b, const RowRun& run, const Tensor& to) {
    matmul_.backward_input(context, b, to, block_of(dy, b, block_),
                           block_of(weight, b, weight_block_), {},
                           {.operand = value_of(dy_amax, b)}, run);
  };
  const auto adapt = [&](const RowRun& run, const Tensor& all) {
    for (const LowRankAdapter& adapter : adapters_)
      adapter.backward_input(context, {all, blocks_}, {dy, blocks_, run});
  };
  if (blocked_) {
    sum_.start(context, matmul_.by_block(), multiply, adapt);
  } else {
    multiply(0, {}, dx);
    adapt({}, dx);
  }
  if (!split_backward_) accumulate(context, dy, x, dy_amax);
  if (blocked_) ops::add_bias_residual(context.stream, dx, sum_.finish(context));
  if (!split_backward_) finish_weights(context, dy, x);
}

void ColumnLinear::backward_weight(const Context& context, const Tensor& dy,
                                   const Tensor& x) const {
  accumulate(context, dy, x, {});
  finish_weights(context, dy, x);
}

void ColumnLinear::accumulate(const Context& context, const Tensor& dy, const Tensor& x,
                              const Tensor& dy_amax) const {
  const Tensor db = trained_gradient(context, bias_), dw = trained_gradient(context, weight_);
  for (std::int64_t b = 0; b < blocks_; ++b) {
    const Tensor own = db.empty() ? db : block_of(db, b, Shape{weight_block_[0]});
    if (!dw.empty()) {
      matmul_.backward_weight(context, b, block_of(dw, b, weight_block_), own,
                              block_of(dy, b, block_), x, value_of(dy_amax, b));
    } else if (!own.empty()) {
      ops::column_sums(context.stream, own, block_of(dy, b, block_));
    }
  }
}

// The adapters' sums over ranks follow those of dx.
void ColumnLinear::finish_weights(const Context& context, const Tensor& dy, const Tensor& x) const {
  for (const LowRankAdapter& adapter : adapters_)
    adapter.backward_weight(context, {dy, blocks_}, {x});
  if (bias_.index >= 0) context.ready(bias_);
  const ParamSpec& spec = context.params.layout().spec(weight_);
  if (spec.tie.empty() || spec.is_copy()) context.ready(weight_);
}

}  // namespace trireme
