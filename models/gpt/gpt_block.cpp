// SPDX-License-Identifier: Apache-2.0
#include "models/gpt/gpt_block.h"

#include <cmath>

#include "models/layers/blocks.h"
#include "runtime/ops/attention/attention.h"
#include "runtime/ops/elementwise/elementwise.h"
#include "runtime/ops/elementwise/gelu.h"

namespace trireme {
namespace {

Init matrix_init(const GptOptions& options) {
  return Init::normal(static_cast<float>(options.init_std));
}

Init residual_init(const GptOptions& options) {
  return Init::normal(static_cast<float>(options.init_std) /
                      std::sqrt(2.0F * static_cast<float>(options.layers)));
}

// `count` blocks of this shape one after another.
Shape blocks_of(std::int64_t count, const Shape& block) {
  return {count, block[0], block[1], block[2]};
}

// The memory of one activation under another shape, which may be smaller.
Activation reshaped(Activation activation, const Shape& shape) {
  activation.shape = shape;
  return activation;
}

}  // namespace

GptBlock::GptBlock(Blueprint& blueprint, const GptOptions& options, std::int64_t index)
    : Layer(fmt::format("blocks.{}", index),
            RowSplit(blueprint, options.context, options.hidden).local()),
      rows_(blueprint, options.context, options.hidden),
      blocks_(blueprint.tensor().local()),
      block_heads_(options.heads / blueprint.tensor().blocks),
      split_backward_(blueprint.options().split_backward),
      recomputes_(blueprint.options().recompute == Recompute::selective),
      sum_(blueprint, rows_),
      norm1_(blueprint, "norm1", rows_),
      qkv_(blueprint, "attention.qkv", 3 * options.hidden, 3, matrix_init(options), sum_),
      output_(blueprint, "attention.output", options.hidden, residual_init(options), sum_),
      norm2_(blueprint, "norm2", rows_),
      expand_(blueprint, "mlp.expand", 4 * options.hidden, 1, matrix_init(options), sum_),
      contract_(blueprint, "mlp.contract", 4 * options.hidden, residual_init(options), sum_),
      attention_dropout_(blueprint, "attention.dropout", static_cast<float>(options.dropout),
                         rows_),
      mlp_dropout_(blueprint, "mlp.dropout", static_cast<float>(options.dropout), rows_) {
  TRIREME_EXPECTS(options.heads % blueprint.tensor().blocks == 0, "{} heads in {} tensor blocks",
                  options.heads, blueprint.tensor().blocks);
  reserve(blueprint);
}

void GptBlock::reserve(Blueprint& blueprint) {
  const Shape& whole = rows_.whole();
  const auto keep_or_recompute = [&](const Shape& shape, DType dtype) {
    return recomputes_ ? blueprint.scratch(shape, dtype) : blueprint.keep(shape, dtype);
  };
  const DType compute = blueprint.compute();
  const Shape attended = blocks_of(blocks_, output_.block_shape());
  normed1_ = blueprint.keep(whole);
  qkv_out_ = blueprint.keep(blocks_of(blocks_, qkv_.block_shape()));
  lse_ = keep_or_recompute({blocks_, whole[0], block_heads_, whole[1]}, DType::f32);
  attended_ = keep_or_recompute(attended, compute);
  middle_ = blueprint.keep(rows_.local());
  normed2_ = blueprint.keep(whole);
  expanded_ = blueprint.keep(blocks_of(blocks_, expand_.block_shape()));
  activated_ = keep_or_recompute(expanded_.shape, compute);
  if (!blueprint.options().training) return;
  dexpanded_ = blueprint.until_weight(expanded_.shape);
  dqkv_ = split_backward_ ? blueprint.until_weight(qkv_out_.shape)
                          : reshaped(dexpanded_, qkv_out_.shape);
  dnormed2_ = blueprint.until_weight(rows_.local());
  dnormed1_ = split_backward_ ? blueprint.until_weight(rows_.local()) : dnormed2_;
  // Not smaller than the rank's share of (B, T, C), and written only after attention's backward.
  dattended_ = reshaped(dnormed1_, attended);
}

void GptBlock::normalize(const Context& context, const LayerNorm& norm, const Tensor& normed,
                         const Tensor& x) const {
  norm.forward(context, rows_.own(normed), x);
  rows_.gather(context, normed);
}

void GptBlock::attend(const Context& context) const {
  const Tensor attended = context(attended_), lse = context(lse_), qkv = context(qkv_out_);
  const Shape rows{lse_.shape[1], lse_.shape[2], lse_.shape[3]};
  for (std::int64_t b = 0; b < blocks_; ++b) {
    ops::attention_forward(context.stream, block_of(attended, b, output_.block_shape()),
                           block_of(lse, b, rows), block_of(qkv, b, qkv_.block_shape()),
                           {.heads = block_heads_, .key_heads = block_heads_});
  }
}

void GptBlock::activate_again(const Context& context) const {
  const Tensor activated = context(activated_), expanded = context(expanded_);
  const Shape& block = expand_.block_shape();
  for (std::int64_t b = 0; b < blocks_; ++b)
    ops::gelu_forward(context.stream, block_of(activated, b, block), block_of(expanded, b, block));
}

void GptBlock::project(const Context& context, const RowLinear& branch, const Dropout& dropout,
                       const Tensor& out, const Tensor& in, const Tensor& residual) const {
  if (!dropout.active(context)) {
    branch.forward(context, out, in, residual);
    return;
  }
  branch.forward(context, out, in, {});
  dropout.forward(context, out);
  ops::add_in_place(context.stream, out, residual);
}

void GptBlock::forward(const Context& context, const Tensor& x, const Tensor& y) {
  const Tensor normed1 = context(normed1_), middle = context(middle_), normed2 = context(normed2_);

  normalize(context, norm1_, normed1, x);
  qkv_.forward(context, context(qkv_out_), normed1);
  attend(context);
  project(context, output_, attention_dropout_, middle, context(attended_), x);

  normalize(context, norm2_, normed2, middle);
  expand_.forward_gelu(context, context(activated_), context(expanded_), normed2);
  project(context, contract_, mlp_dropout_, y, context(activated_), middle);
}

void GptBlock::backward_mlp(const Context& context, const Tensor& gradient) const {
  const Tensor dexpanded = context(dexpanded_), dnormed = context(dnormed2_);

  if (recomputes_ && !split_backward_) activate_again(context);
  contract_.backward(context, dexpanded, mlp_dropout_.backward(context, gradient),
                     context(activated_), context(expanded_));
  expand_.backward(context, dnormed, dexpanded, context(normed2_));
  norm2_.backward(context, gradient, dnormed, context(middle_), /*accumulate=*/true);
}

void GptBlock::backward_attention(const Context& context, const Tensor& x,
                                  const Tensor& gradient) const {
  const Tensor dattended = context(dattended_), dqkv = context(dqkv_), dnormed = context(dnormed1_);
  const Tensor attended = context(attended_), lse = context(lse_), qkv = context(qkv_out_);
  const Shape &narrow = output_.block_shape(), &wide = qkv_.block_shape();
  const Shape rows{lse_.shape[1], lse_.shape[2], lse_.shape[3]};

  if (recomputes_) attend(context);
  output_.backward(context, dattended, attention_dropout_.backward(context, gradient), attended);
  for (std::int64_t b = 0; b < blocks_; ++b) {
    ops::attention_backward(context.stream, block_of(dqkv, b, wide), block_of(dattended, b, narrow),
                            block_of(attended, b, narrow), block_of(lse, b, rows),
                            block_of(qkv, b, wide),
                            {.heads = block_heads_, .key_heads = block_heads_});
  }
  qkv_.backward(context, dnormed, dqkv, context(normed1_));
  norm1_.backward(context, gradient, dnormed, x, /*accumulate=*/true);
}

void GptBlock::backward(const Context& context, const Tensor& x, const Tensor& /*y*/,
                        const Tensor& dy, const Tensor& dx) {
  TRIREME_EXPECTS(dx.data == dy.data, "the residual gradient is updated in place");
  backward_mlp(context, dy);
  backward_attention(context, x, dy);
}

void GptBlock::backward_weight(const Context& context, const Tensor& x) {
  if (recomputes_) activate_again(context);
  contract_.backward_weight(context, mlp_dropout_.gradient(context), context(activated_));
  expand_.backward_weight(context, context(dexpanded_), context(normed2_));
  norm2_.backward_weight(context, context(dnormed2_), context(middle_));
  if (recomputes_) attend(context);
  output_.backward_weight(context, attention_dropout_.gradient(context), context(attended_));
  qkv_.backward_weight(context, context(dqkv_), context(normed1_));
  norm1_.backward_weight(context, context(dnormed1_), x);
}

void GptBlock::add_limits(ModelLimits& limits) const {
  const std::int64_t hidden = rows_.whole().back();
  limits.tensor.push_back({block_heads_ * blocks_, "model.heads"});
  limits.tensor.push_back({hidden, "model.hidden"});
  limits.rows = {rows_.whole()[1], "model.context"};
  limits.gelu = {4 * hidden, "4 x model.hidden"};
  limits.fp8 = true;
  limits.selective_recompute = true;
}

double GptBlock::forward_flops() const {
  // Scores and weighted values, half of them masked away: 2 * (2 * T * C) / 2 per token.
  const double attention =
      2.0 * static_cast<double>(attended_.shape.count()) * static_cast<double>(rows_.whole()[1]);
  return qkv_.forward_flops() + output_.forward_flops() + expand_.forward_flops() +
         contract_.forward_flops() + attention;
}

}  // namespace trireme
