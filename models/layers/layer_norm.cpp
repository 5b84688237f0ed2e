// SPDX-License-Identifier: Apache-2.0
#include "models/layers/layer_norm.h"

#include "models/layers/blocks.h"
#include "runtime/ops/elementwise/elementwise.h"
#include "runtime/ops/norm/layer_norm.h"
#include "runtime/ops/update/block_sum.h"

namespace trireme {

LayerNorm::LayerNorm(Blueprint& blueprint, std::string_view name, const RowSplit& rows)
    : rows_(rows), split_backward_(blueprint.options().split_backward) {
  const auto scope = blueprint.scope(name);
  const Shape channels{rows.whole().back()};
  weight_ = blueprint.parameter({.name = "weight", .shape = channels, .init = Init::constant(1)});
  bias_ = blueprint.parameter({.name = "bias", .shape = channels});
  mean_ = blueprint.keep(Shape{rows.local().rows()}, DType::f32);
  rstd_ = blueprint.keep(Shape{rows.local().rows()}, DType::f32);
  if (rows.runs() > 0) partial_ = blueprint.scratch({rows.runs(), 2, channels[0]}, DType::f32);
}

void LayerNorm::forward(const Context& context, const Tensor& y, const Tensor& x) const {
  ops::layer_norm_forward(context.stream, y, context(mean_), context(rstd_), x,
                          context.params.compute(weight_), context.params.compute(bias_));
}

void LayerNorm::backward(const Context& context, const Tensor& dx, const Tensor& dy,
                         const Tensor& x, bool accumulate) const {
  differentiate(context, dx, dy, x, accumulate, !split_backward_);
}

void LayerNorm::backward_weight(const Context& context, const Tensor& dy, const Tensor& x) const {
  differentiate(context, {}, dy, x, false, true);
}

void LayerNorm::differentiate(const Context& context, const Tensor& dx, const Tensor& dy,
                              const Tensor& x, bool accumulate, bool with_parameters) const {
  if (rows_.runs() > 0) {
    differentiate_runs(context, dx, dy, x, accumulate, with_parameters);
  } else {
    const auto gradient = [&](ParamId id) {
      return with_parameters ? context.params.gradient(id) : Tensor{};
    };
    ops::layer_norm_backward(context.stream, dx, gradient(weight_), gradient(bias_), dy, x,
                             context.params.compute(weight_), context(mean_), context(rstd_),
                             accumulate);
  }
  if (!with_parameters) return;
  context.ready(bias_);
  context.ready(weight_);
}

void LayerNorm::differentiate_runs(const Context& context, const Tensor& dx, const Tensor& dy,
                                   const Tensor& x, bool accumulate, bool with_parameters) const {
  const Shape channels{x.shape.back()}, pair{2, channels[0]};
  const Shape run{rows_.rows_of_run(), channels[0]}, statistic{run[0]};
  const Tensor partial = context(partial_), mean = context(mean_), rstd = context(rstd_);
  if (with_parameters)
    context.stream.device().fill_zero(context.stream, partial.data, partial.bytes());
  for (std::int64_t r = 0; r < rows_.runs(); ++r) {
    const Tensor sums = with_parameters ? block_of(partial, r, pair) : Tensor{};
    ops::layer_norm_backward(context.stream, dx.empty() ? dx : block_of(dx, r, run),
                             with_parameters ? block_of(sums, 0, channels) : Tensor{},
                             with_parameters ? block_of(sums, 1, channels) : Tensor{},
                             block_of(dy, r, run), block_of(x, r, run),
                             context.params.compute(weight_), block_of(mean, r, statistic),
                             block_of(rstd, r, statistic), accumulate);
  }
  if (!with_parameters) return;
  const Tensor total = block_of(partial, 0, pair);
  if (rows_.runs() > 1) ops::sum_blocks(context.stream, total, partial);
  if (rows_.split()) context.tensor->all_reduce(context.stream, total);
  ops::add_in_place(context.stream, context.params.gradient(weight_), block_of(total, 0, channels));
  ops::add_in_place(context.stream, context.params.gradient(bias_), block_of(total, 1, channels));
}

}  // namespace trireme
