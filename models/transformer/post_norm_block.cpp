// SPDX-License-Identifier: Apache-2.0
#include "models/transformer/post_norm_block.h"

#include "models/layers/blocks.h"
#include "runtime/ops/elementwise/elementwise.h"

namespace trireme {

PostNormBlock::Branch::Branch(Blueprint& blueprint, std::string_view name,
                              const TransformerOptions& options, const RowSplit& rows)
    : dropout(blueprint, name, static_cast<float>(options.dropout), rows),
      sum(blueprint.keep(rows.local())),
      normed_gradient(blueprint.until_weight(rows.local())) {}

PostNormBlock::PostNormBlock(Blueprint& blueprint, const TransformerOptions& options,
                             std::int64_t index)
    : Layer(fmt::format("blocks.{}", index),
            RowSplit(blueprint, options.context, options.hidden).local()),
      context_name_(options.context_name),
      rows_(blueprint, options.context, options.hidden),
      split_backward_(blueprint.splits_backward()),
      recomputes_(blueprint.options().recompute == Recompute::selective),
      sum_(blueprint, rows_),
      attention_(blueprint, options, sum_),
      output_(blueprint, "attention.output", options.heads * options.head_size,
              options.attention_output_bias(), options.residual_init(), sum_),
      norm1_(blueprint, "norm1", options.norm, rows_),
      mlp_(make_feed_forward(blueprint, options, sum_)),
      norm2_(blueprint, "norm2", options.norm, rows_),
      first_(blueprint, "attention.dropout", options, rows_),
      second_(blueprint, "mlp.dropout", options, rows_),
      middle_(blueprint.keep(rows_.whole())) {
  if (rows_.split()) input_ = blueprint.keep(rows_.whole());
  if (!blueprint.options().training) return;
  const Shape& projected = attention_.projected_shape();
  dprojected_ = blueprint.until_weight(projected);
  dattended_ = blueprint.scratch(blocks_of(projected[0], attention_.attended_block()));
  dsum_ = blueprint.scratch(rows_.local());
}

Tensor PostNormBlock::whole_input(const Context& context, const Tensor& x) const {
  return rows_.split() ? context(input_) : x;
}

void PostNormBlock::forward(const Context& context, const Tensor& x, const Tensor& y) {
  const Tensor input = whole_input(context, x), middle = context(middle_);
  if (rows_.split()) {
    context.stream.device().copy(context.stream, rows_.own(input).data, x.data, x.bytes());
    rows_.gather(context, input);
  }
  attention_.forward(context, input);
  const auto attended = [&](const Tensor& to, const Tensor& residual) {
    output_.forward(context, to, attention_.attended(context), residual, {});
  };
  first_.dropout.add(context, attended, context(first_.sum), x);
  const Tensor amax = rows_.split() ? Tensor{} : mlp_->amax(context);
  norm1_.forward(context, rows_.own(middle), context(first_.sum), amax);
  rows_.gather(context, middle);

  mlp_->forward(context, middle, amax);
  const auto fed_forward = [&](const Tensor& to, const Tensor& residual) {
    mlp_->project(context, to, residual, middle);
  };
  second_.dropout.add(context, fed_forward, context(second_.sum), rows_.own(middle));
  norm2_.forward(context, y, context(second_.sum));
}

Tensor PostNormBlock::backward_norm(const Context& context, const Norm& norm, const Branch& branch,
                                    const Tensor& gradient, const Tensor& amax) const {
  const Tensor dsum = context(dsum_);
  norm.backward(context, dsum, gradient, context(branch.sum), /*accumulate=*/false, amax);
  if (split_backward_) {
    context.stream.device().copy(context.stream, context(branch.normed_gradient).data,
                                 gradient.data, gradient.bytes());
  }
  return dsum;
}

void PostNormBlock::backward(const Context& context, const Tensor& x, const Tensor& /*y*/,
                             const Tensor& dy, const Tensor& dx) {
  TRIREME_EXPECTS(dx.data == dy.data, "the residual gradient is updated in place");
  const Tensor& gradient = dy;
  const Tensor after = branch_amax(norm2_, second_, mlp_->gradient_amax(context));
  const Tensor before = branch_amax(norm1_, first_, output_.dy_amax(context));
  const Tensor dafter = backward_norm(context, norm2_, second_, gradient, after);
  if (recomputes_ && !split_backward_) mlp_->activate_again(context);
  mlp_->backward(context, gradient, second_.dropout.backward(context, dafter), context(middle_),
                 after);
  ops::add_in_place(context.stream, gradient, dafter);

  const Tensor dbefore = backward_norm(context, norm1_, first_, gradient, before);
  const Tensor dattended = context(dattended_), dprojected = context(dprojected_);
  static_cast<void>(attention_.prepare_backward(context, recomputes_));
  output_.backward(context, dattended, first_.dropout.backward(context, dbefore),
                   attention_.attended(context), before);
  attention_.backward(context, 0, dprojected, dattended);
  attention_.backward_input(context, gradient, dprojected, whole_input(context, x));
  ops::add_in_place(context.stream, gradient, dbefore);
}

void PostNormBlock::backward_weight(const Context& context, const Tensor& x) {
  norm2_.backward_weight(context, context(second_.normed_gradient), context(second_.sum));
  if (recomputes_) mlp_->activate_again(context);
  mlp_->backward_weight(context, second_.dropout.gradient(context), context(middle_));
  norm1_.backward_weight(context, context(first_.normed_gradient), context(first_.sum));
  if (recomputes_) attention_.attend_again(context);
  output_.backward_weight(context, first_.dropout.gradient(context), attention_.attended(context));
  attention_.backward_weight(context, context(dprojected_), whole_input(context, x));
}

void PostNormBlock::add_limits(ModelLimits& limits) const {
  attention_.add_limits(limits);
  mlp_->add_limits(limits);
  limits.rows = {rows_.whole()[1], context_name_};
  limits.fp8 = true;
  limits.selective_recompute = true;
}

}  // namespace trireme
