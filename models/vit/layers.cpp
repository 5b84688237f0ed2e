// SPDX-License-Identifier: Apache-2.0
#include "models/vit/layers.h"

#include "runtime/ops/convolution/patches.h"
#include "runtime/ops/convolution/pooling.h"
#include "runtime/ops/elementwise/elementwise.h"
#include "runtime/ops/gemm/linear.h"
#include "runtime/ops/loss/embedding.h"

namespace trireme {
namespace {

Shape image_shape(const Blueprint& blueprint, const VitOptions& options) {
  return {blueprint.micro_batch(), options.image_size, options.width_of_images(), options.channels};
}

}  // namespace

PatchEmbedding::PatchEmbedding(Blueprint& blueprint, const VitOptions& options,
                               const TransformerOptions& block, const ops::AugmentOptions& augment)
    : Layer("embedding", RowSplit(blueprint, block.context, block.hidden).local()),
      rows_(blueprint, block.context, block.hidden),
      split_backward_(blueprint.options().split_backward),
      patch_(options.patch),
      class_tokens_(options.class_tokens()),
      input_(blueprint, image_shape(blueprint, options), augment),
      dropout_(blueprint, "dropout", static_cast<float>(block.dropout), rows_) {
  const std::int64_t hidden = block.hidden, inputs = patch_ * patch_ * options.channels;
  weight_ = blueprint.parameter({.name = "patch.weight",
                                 .shape = {hidden, inputs},
                                 .init = block.matrix_init(),
                                 .decay = true,
                                 .matrix = true});
  bias_ = blueprint.parameter({.name = "patch.bias", .shape = {hidden}});
  if (class_tokens_ > 0) {
    class_token_ = blueprint.parameter(
        {.name = "class_token", .shape = {hidden}, .init = block.position_init});
  }
  positions_ = blueprint.parameter({.name = "position.weight",
                                    .shape = {block.context, hidden},
                                    .init = block.position_init,
                                    .matrix = true});
  image_ = blueprint.scratch(image_shape(blueprint, options));
  patches_ = blueprint.keep({blueprint.micro_batch(), block.context, inputs});
  if (rows_.split()) embedded_ = blueprint.scratch(rows_.whole());
  added_ = blueprint.scratch({block.context, hidden});
  if (blueprint.options().training)
    added_gradient_ = blueprint.scratch({block.context, hidden}, DType::f32);
}

Tensor PatchEmbedding::class_row(const Tensor& rows) const {
  return rows.range(0, rows.shape[1]).reshaped({1, rows.shape[1]});
}

Tensor PatchEmbedding::patch_rows(const Tensor& rows) const {
  const std::int64_t first = class_tokens_, C = rows.shape[1];
  return rows.range(first * C, (rows.shape[0] - first) * C).reshaped({rows.shape[0] - first, C});
}

// Positions, plus the class token in the first row and the bias in the patches' rows.
Tensor PatchEmbedding::added_rows(const Context& context) const {
  const Tensor added = context(added_), positions = context.params.compute(positions_);
  ops::add_bias_residual(context.stream, patch_rows(added), patch_rows(positions),
                         context.params.compute(bias_));
  if (class_tokens_ > 0) {
    ops::add_bias_residual(context.stream, class_row(added), class_row(positions),
                           context.params.compute(class_token_));
  }
  return added;
}

void PatchEmbedding::forward(const Context& context, const Tensor& x, const Tensor& y) {
  const Tensor image = context(image_), patches = context(patches_);
  input_.forward(context, image, x);
  ops::cut_patches(context.stream, patches, image, patch_, class_tokens_);
  const Tensor embedded = rows_.split() ? context(embedded_) : y;
  ops::linear_forward(context.stream, embedded, patches, context.params.compute(weight_));
  ops::add_positions(context.stream, embedded, embedded, added_rows(context));
  if (rows_.split()) {
    const Tensor own = rows_.own(embedded);
    context.stream.device().copy(context.stream, y.data, own.data, own.bytes());
  }
  dropout_.forward(context, y);
}

void PatchEmbedding::backward(const Context& context, const Tensor& /*x*/, const Tensor& /*y*/,
                              const Tensor& dy, const Tensor& /*dx*/) {
  const Tensor gradient = dropout_.backward(context, dy);
  if (!split_backward_) accumulate(context, gradient);
}

void PatchEmbedding::backward_weight(const Context& context, const Tensor& /*x*/) {
  accumulate(context, dropout_.gradient(context));
}

void PatchEmbedding::accumulate(const Context& context, const Tensor& dy) const {
  const Tensor added = context(added_gradient_), whole = dy.reshaped(rows_.whole());
  context.stream.device().fill_zero(context.stream, added.data, added.bytes());
  ops::add_positions_backward(context.stream, added, whole);
  ops::add_in_place(context.stream, context.params.gradient(positions_), added);
  context.ready(positions_);
  if (class_tokens_ > 0) {
    ops::column_sums(context.stream, context.params.gradient(class_token_), class_row(added));
    context.ready(class_token_);
  }
  ops::column_sums(context.stream, context.params.gradient(bias_), patch_rows(added));
  context.ready(bias_);
  ops::linear_backward_weight(context.stream, context.params.gradient(weight_), {}, whole,
                              context(patches_));
  context.ready(weight_);
}

double PatchEmbedding::forward_flops() const {
  return 2.0 * static_cast<double>(rows_.rows()) * static_cast<double>(rows_.whole()[2]) *
         static_cast<double>(patches_.shape.back());
}

ClassHead::ClassHead(Blueprint& blueprint, const TransformerOptions& block,
                     const VitOptions& options, const ops::MixOptions& mix)
    : Layer("head", Shape{}),
      rows_(blueprint, block.context, block.hidden),
      split_backward_(blueprint.options().split_backward),
      pooling_(options.pooling),
      info_{.targets = blueprint.micro_batch(), .classes = options.classes},
      norm_(blueprint, "final_norm", block.norm, rows_),
      linear_(blueprint, "classifier", block.hidden, options.classes, block.matrix_init()),
      loss_(blueprint, mix),
      normed_(blueprint.scratch(rows_.whole())),
      dnormed_(blueprint.until_weight(rows_.whole())),
      pooled_(blueprint.keep({info_.targets, block.hidden})),
      dpooled_(blueprint.scratch(pooled_.shape)) {
  info_.logits = blueprint.keep({info_.targets, options.classes});
}

Tensor ClassHead::as_image(const Tensor& rows) const {
  const Shape& whole = rows_.whole();
  return rows.reshaped({whole[0], whole[1], 1, whole[2]});
}

void ClassHead::forward(const Context& context, const Tensor& x, const Tensor& /*y*/) {
  const Tensor normed = context(normed_), pooled = context(pooled_), logits = context(info_.logits);
  norm_.forward(context, rows_.own(normed), x);
  rows_.gather(context, normed);
  if (pooling_ == Pooling::mean) {
    ops::global_average_pool_forward(context.stream, pooled, as_image(normed));
  } else {
    ops::first_rows_forward(context.stream, pooled, normed);
  }
  linear_.forward(context, logits, pooled);
  loss_.forward(context, logits);
}

void ClassHead::backward(const Context& context, const Tensor& x, const Tensor& /*y*/,
                         const Tensor& /*dy*/, const Tensor& dx) {
  const Tensor dnormed = context(dnormed_), dpooled = context(dpooled_);
  const Tensor logits = context(info_.logits);
  if (!split_backward_) linear_.backward_weight(context, logits, context(pooled_));
  linear_.backward_input(context, dpooled, logits);
  if (pooling_ == Pooling::mean) {
    ops::global_average_pool_backward(context.stream, as_image(dnormed), dpooled);
  } else {
    ops::first_rows_backward(context.stream, dnormed, dpooled);
  }
  norm_.backward(context, dx, rows_.own(dnormed), x, /*accumulate=*/false);
}

void ClassHead::backward_weight(const Context& context, const Tensor& x) {
  linear_.backward_weight(context, context(info_.logits), context(pooled_));
  norm_.backward_weight(context, rows_.own(context(dnormed_)), x);
}

}  // namespace trireme
