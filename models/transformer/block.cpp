// SPDX-License-Identifier: Apache-2.0
#include "models/transformer/block.h"

#include "models/layers/blocks.h"
#include "runtime/ops/elementwise/elementwise.h"

namespace trireme {
namespace {

// `shape` in the memory of `of` if it fits, else in its own.
Activation within(Blueprint& blueprint, const Activation& of, const Shape& shape) {
  return shape.count() <= of.shape.count() ? reshaped(of, shape) : blueprint.scratch(shape);
}

template <typename T, typename... Arguments>
std::optional<T> make_if(bool wanted, Arguments&&... arguments) {
  if (!wanted) return std::nullopt;
  return std::optional<T>(std::in_place, std::forward<Arguments>(arguments)...);
}

}  // namespace

TransformerBlock::BranchNorm::BranchNorm(Blueprint& blueprint, std::string_view name,
                                         const NormStyle& style, const RowSplit& rows)
    : norm(blueprint, name, style, rows),
      branch(blueprint.keep(rows.local())),
      gradient(blueprint.until_weight(rows.local())) {}

TransformerBlock::TransformerBlock(Blueprint& blueprint, const TransformerOptions& options,
                                   std::int64_t index)
    : Layer(fmt::format("blocks.{}", index),
            RowSplit(blueprint, blueprint.rows_of(options.context), options.hidden).local()),
      context_name_(options.context_name),
      gated_mlp_(options.gated_mlp),
      rows_(blueprint, blueprint.rows_of(options.context), options.hidden),
      split_backward_(blueprint.splits_backward()),
      recomputes_(blueprint.options().recompute == Recompute::selective),
      sum_(blueprint, rows_),
      norm1_(make_if<Norm>(options.pre_norms, blueprint, "norm1", options.norm, rows_)),
      attention_(blueprint, options, sum_),
      output_(blueprint, "attention.output", options.heads * options.head_size,
              options.attention_output_bias(), options.residual_init(), sum_),
      attention_norm_(make_if<BranchNorm>(options.branch_norms, blueprint, "attention.norm",
                                          options.norm, rows_)),
      norm2_(make_if<Norm>(options.pre_norms, blueprint, "norm2", options.norm, rows_)),
      mlp_(make_feed_forward(blueprint, options, sum_)),
      mlp_norm_(
          make_if<BranchNorm>(options.branch_norms, blueprint, "mlp.norm", options.norm, rows_)),
      attention_dropout_(blueprint, "attention.dropout", static_cast<float>(options.dropout),
                         rows_),
      mlp_dropout_(blueprint, "mlp.dropout", static_cast<float>(options.dropout), rows_) {
  reserve(blueprint);
}

void TransformerBlock::reserve(Blueprint& blueprint) {
  const Shape& whole = rows_.whole();
  const bool own = norm1_ || rows_.split();  // else branches read the residual stream itself
  if (own) normed1_ = blueprint.keep(whole);
  middle_ = blueprint.keep(rows_.local());
  if (own) normed2_ = blueprint.keep(whole);
  if (!blueprint.options().training) return;
  const Shape& projected = attention_.projected_shape();
  dprojected_ = split_backward_ ? blueprint.until_weight(projected)
                                : within(blueprint, mlp_->spare(), projected);
  dnormed2_ = blueprint.until_weight(rows_.local());
  dnormed1_ = split_backward_ ? blueprint.until_weight(rows_.local()) : dnormed2_;
  // dnormed1 is written only after attention's backward.
  dattended_ = within(blueprint, dnormed1_, blocks_of(projected[0], attention_.attended_block()));
  if (attention_norm_) dbranch_ = blueprint.scratch(rows_.local());
}

Tensor TransformerBlock::operand(const Context& context, const Activation& normed,
                                 const Tensor& x) const {
  return normed.shape.rank() == 0 ? x : context(normed);
}

Tensor TransformerBlock::normalize(const Context& context, const std::optional<Norm>& norm,
                                   const Activation& normed, const Tensor& x,
                                   const Tensor& amax) const {
  const Tensor all = operand(context, normed, x);
  if (norm) {
    norm->forward(context, rows_.own(all), x, amax);
  } else if (rows_.split()) {
    context.stream.device().copy(context.stream, rows_.own(all).data, x.data, x.bytes());
  }
  rows_.gather(context, all);
  return all;
}

template <typename Write>
void TransformerBlock::project(const Context& context, const Write& write, const Dropout& dropout,
                               const std::optional<BranchNorm>& norm, const Tensor& out,
                               const Tensor& residual) const {
  if (!norm) return dropout.add(context, write, out, residual);
  const Tensor added = context(norm->branch);
  write(added, Tensor{});
  dropout.forward(context, added);
  norm->norm.forward(context, out, added);
  ops::add_in_place(context.stream, out, residual);
}

void TransformerBlock::forward(const Context& context, const Tensor& x, const Tensor& y) {
  const Tensor middle = context(middle_);
  const Tensor amax1 = norm1_ ? whole_amax(attention_.amax(context)) : Tensor{};
  const Tensor amax2 = norm2_ ? whole_amax(mlp_->amax(context)) : Tensor{};
  if (context.part == 0)
    attention_.project(context, normalize(context, norm1_, normed1_, x, amax1), amax1);
  if (!attention_.attend(context)) return;
  const auto attended = [&](const Tensor& to, const Tensor& residual) {
    output_.forward(context, to, attention_.attended(context), residual, {});
  };
  project(context, attended, attention_dropout_, attention_norm_, middle, x);

  const Tensor normed2 = normalize(context, norm2_, normed2_, middle, amax2);
  mlp_->forward(context, normed2, amax2);
  const auto fed_forward = [&](const Tensor& to, const Tensor& residual) {
    mlp_->project(context, to, residual, normed2);
  };
  project(context, fed_forward, mlp_dropout_, mlp_norm_, y, middle);
}

// For the gradient between the two branches, which the second norm completes.
Tensor TransformerBlock::middle_gradient_amax(const Context& context) const {
  const bool known =
      !attention_norm_ && norm2_->measures_gradient() && attention_dropout_.keeps_gradient();
  return known ? output_.dy_amax(context) : Tensor{};
}

Tensor TransformerBlock::branch_amax(const BranchNorm& norm, const Dropout& dropout,
                                     const Tensor& amax) {
  return norm.norm.measures_gradient() && dropout.keeps_gradient() ? amax : Tensor{};
}

Tensor TransformerBlock::backward_branch(const Context& context, const Dropout& dropout,
                                         const std::optional<BranchNorm>& norm,
                                         const Tensor& gradient, const Tensor& amax) const {
  if (!norm) return dropout.backward(context, gradient);
  const Tensor dbranch = context(dbranch_);
  norm->norm.backward(context, dbranch, gradient, context(norm->branch), /*accumulate=*/false,
                      amax);
  if (split_backward_) {
    context.stream.device().copy(context.stream, context(norm->gradient).data, gradient.data,
                                 gradient.bytes());
  }
  return dropout.backward(context, dbranch);
}

void TransformerBlock::backward_mlp(const Context& context, const Tensor& gradient) const {
  const Tensor dnormed = context(dnormed2_);

  if (recomputes_ && !split_backward_) mlp_->activate_again(context);
  const Tensor amax =
      mlp_norm_ ? branch_amax(*mlp_norm_, mlp_dropout_, mlp_->gradient_amax(context)) : Tensor{};
  const Tensor dadded = backward_branch(context, mlp_dropout_, mlp_norm_, gradient, amax);
  const Tensor middle = context(middle_);
  mlp_->backward(context, dnormed, dadded, operand(context, normed2_, middle), amax);
  add_gradient(context, norm2_, gradient, dnormed, middle, middle_gradient_amax(context));
}

void TransformerBlock::add_gradient(const Context& context, const std::optional<Norm>& norm,
                                    const Tensor& gradient, const Tensor& dnormed, const Tensor& x,
                                    const Tensor& amax) {
  if (!norm) return ops::add_in_place(context.stream, gradient, dnormed);
  norm->backward(context, gradient, dnormed, x, /*accumulate=*/true, amax);
}

void TransformerBlock::backward_attention(const Context& context, const Tensor& x,
                                          const Tensor& gradient) const {
  const Tensor dattended = context(dattended_), dprojected = context(dprojected_);
  const Tensor dnormed = context(dnormed1_);
  const int step = attention_.prepare_backward(context, recomputes_);
  if (step < 0) return;
  if (step == 0) backward_output(context, gradient);
  if (!attention_.backward(context, step, dprojected, dattended)) return;
  attention_.backward_input(context, dnormed, dprojected, operand(context, normed1_, x));
  add_gradient(context, norm1_, gradient, dnormed, x);
}

void TransformerBlock::backward_output(const Context& context, const Tensor& gradient) const {
  const Tensor amax =
      attention_norm_ ? branch_amax(*attention_norm_, attention_dropout_, output_.dy_amax(context))
                      : middle_gradient_amax(context);
  const Tensor dadded =
      backward_branch(context, attention_dropout_, attention_norm_, gradient, amax);
  output_.backward(context, context(dattended_), dadded, attention_.attended(context), amax);
}

void TransformerBlock::backward(const Context& context, const Tensor& x, const Tensor& /*y*/,
                                const Tensor& dy, const Tensor& dx) {
  TRIREME_EXPECTS(dx.data == dy.data, "the residual gradient is updated in place");
  if (context.part == 0) backward_mlp(context, dy);
  backward_attention(context, x, dy);
}

void TransformerBlock::backward_weight(const Context& context, const Tensor& x) {
  const auto of_norm = [&](const std::optional<BranchNorm>& norm) {
    if (norm) norm->norm.backward_weight(context, context(norm->gradient), context(norm->branch));
  };
  of_norm(mlp_norm_);
  if (recomputes_) mlp_->activate_again(context);
  const Tensor middle = context(middle_);
  mlp_->backward_weight(context, mlp_dropout_.gradient(context),
                        operand(context, normed2_, middle));
  if (norm2_) norm2_->backward_weight(context, context(dnormed2_), middle);
  of_norm(attention_norm_);
  if (recomputes_) attention_.attend_again(context);
  output_.backward_weight(context, attention_dropout_.gradient(context),
                          attention_.attended(context));
  attention_.backward_weight(context, context(dprojected_), operand(context, normed1_, x));
  if (norm1_) norm1_->backward_weight(context, context(dnormed1_), x);
}

void TransformerBlock::add_limits(ModelLimits& limits) const {
  attention_.add_limits(limits);
  limits.positions.name = context_name_;
  mlp_->add_limits(limits);
  limits.rows = {rows_.whole()[1], context_name_};
  limits.fp8 = true;
  // Only for causal models; others end in layers that would have to be trained whole. Experts have
  // no adapters.
  if (limits.documents && limits.adapted.empty())
    limits.adapted = {"qkv", "query", "key", "value", "output", "expand", "contract"};
  if (limits.documents && gated_mlp_) limits.adapted.insert(limits.adapted.end(), {"gate", "up"});
  if (limits.experts.value > 0) limits.adapted = {"qkv", "query", "key", "value", "output"};
  limits.selective_recompute = true;
}

}  // namespace trireme
