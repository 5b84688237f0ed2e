// SPDX-License-Identifier: Apache-2.0
#include "models/layers/norm.h"

#include "models/layers/blocks.h"
#include "runtime/ops/elementwise/elementwise.h"
#include "runtime/ops/norm/row_norm.h"
#include "runtime/ops/update/block_sum.h"

namespace trireme {

Norm::Norm(Blueprint& blueprint, std::string_view name, const NormStyle& options,
           const RowSplit& rows, float gain)
    : options_(options), rows_(rows), split_backward_(blueprint.splits_backward()) {
  const auto scope = blueprint.scope(name);
  const Shape channels{rows.whole().back()}, statistic{rows.local().rows()};
  weight_ = blueprint.parameter(
      {.name = "weight",
       .shape = channels,
       .init = Init::constant(gain - static_cast<float>(options.offset)).at_rate(gain)});
  if (options.kind == NormKind::layer) {
    bias_ = blueprint.parameter(
        {.name = "bias", .shape = channels, .init = Init::constant(0).at_rate(gain)});
    mean_ = blueprint.keep(statistic, DType::f32);
  }
  rstd_ = blueprint.keep(statistic, DType::f32);
  if (rows.runs() > 0)
    partial_ = blueprint.scratch({rows.runs(), has_bias() ? 2 : 1, channels[0]}, DType::f32);
}

void Norm::forward(const Context& context, const Tensor& y, const Tensor& x,
                   const Tensor& amax) const {
  const Tensor weight = context.params.compute(weight_);
  const auto epsilon = static_cast<float>(options_.epsilon);
  if (has_bias()) {
    ops::layer_norm_forward(context.stream, y, context(mean_), context(rstd_), x, weight,
                            context.params.compute(bias_), epsilon, amax);
  } else {
    ops::rms_norm_forward(context.stream, y, context(rstd_), x, weight, epsilon, amax,
                          static_cast<float>(options_.offset));
  }
}

void Norm::backward(const Context& context, const Tensor& dx, const Tensor& dy, const Tensor& x,
                    bool accumulate, const Tensor& amax) const {
  TRIREME_EXPECTS(amax.empty() || measures_gradient(), "the gradients of runs of rows have maxima");
  differentiate(context, dx, dy, x, accumulate, !split_backward_, amax);
}

void Norm::backward_weight(const Context& context, const Tensor& dy, const Tensor& x) const {
  if (trains(context)) differentiate(context, {}, dy, x, false, true, {});
}

void Norm::differentiate_rows(const Context& context, const Gradients& to, const Tensor& dy,
                              const Tensor& x, std::int64_t row, bool accumulate) const {
  const std::int64_t count = dy.shape.rows();
  const auto statistic = [&](const Activation& of) { return context(of).range(row, count); };
  const Tensor weight = context.params.compute(weight_);
  if (has_bias()) {
    ops::layer_norm_backward(context.stream, to.dx, to.weight, to.bias, dy, x, weight,
                             statistic(mean_), statistic(rstd_), accumulate, to.amax);
  } else {
    ops::rms_norm_backward(context.stream, to.dx, to.weight, dy, x, weight, statistic(rstd_),
                           accumulate, to.amax, static_cast<float>(options_.offset));
  }
}

void Norm::differentiate(const Context& context, const Tensor& dx, const Tensor& dy,
                         const Tensor& x, bool accumulate, bool with_parameters,
                         const Tensor& amax) const {
  with_parameters = with_parameters && trains(context);
  if (rows_.runs() > 0) {
    differentiate_runs(context, dx, dy, x, accumulate, with_parameters);
  } else {
    Gradients to{.dx = dx, .amax = amax};
    if (with_parameters) to.weight = context.params.gradient(weight_);
    if (with_parameters && has_bias()) to.bias = context.params.gradient(bias_);
    differentiate_rows(context, to, dy, x, 0, accumulate);
  }
  if (!with_parameters) return;
  if (has_bias()) context.ready(bias_);
  context.ready(weight_);
}

void Norm::differentiate_runs(const Context& context, const Tensor& dx, const Tensor& dy,
                              const Tensor& x, bool accumulate, bool with_parameters) const {
  const Shape channels{x.shape.back()}, sums{has_bias() ? 2 : 1, channels[0]};
  const Shape run{rows_.rows_of_run(), channels[0]};
  const Tensor partial = context(partial_);
  if (with_parameters)
    context.stream.device().fill_zero(context.stream, partial.data, partial.bytes());
  for (std::int64_t r = 0; r < rows_.runs(); ++r) {
    Gradients to{.dx = dx.empty() ? dx : block_of(dx, r, run)};
    const Tensor own = block_of(partial, r, sums);
    if (with_parameters) to.weight = block_of(own, 0, channels);
    if (with_parameters && has_bias()) to.bias = block_of(own, 1, channels);
    differentiate_rows(context, to, block_of(dy, r, run), block_of(x, r, run), r * run[0],
                       accumulate);
  }
  if (!with_parameters) return;
  const Tensor total = block_of(partial, 0, sums);
  if (rows_.runs() > 1) ops::sum_blocks(context.stream, total, partial);
  if (rows_.split()) context.tensor->all_reduce(context.stream, total);
  ops::add_in_place(context.stream, context.params.gradient(weight_), block_of(total, 0, channels));
  if (has_bias())
    ops::add_in_place(context.stream, context.params.gradient(bias_), block_of(total, 1, channels));
}

}  // namespace trireme
