// SPDX-License-Identifier: Apache-2.0
#include "models/vit/layers.h"

#include "runtime/ops/convolution/patches.h"
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
      split_backward_(blueprint.splits_backward()),
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
  for (const char* const name : {"class_token", "distillation_token"}) {
    if (std::ssize(tokens_) < class_tokens_)
      tokens_.push_back(
          blueprint.parameter({.name = name, .shape = {hidden}, .init = block.position_init}));
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

Tensor PatchEmbedding::token_row(const Tensor& rows, std::int64_t index) {
  const std::int64_t C = rows.shape[1];
  return rows.range(index * C, C).reshaped({1, C});
}

Tensor PatchEmbedding::patch_rows(const Tensor& rows) const {
  const std::int64_t first = class_tokens_, C = rows.shape[1];
  return rows.range(first * C, (rows.shape[0] - first) * C).reshaped({rows.shape[0] - first, C});
}

// Positions, plus the tokens in the first rows and the bias in the patches' rows.
Tensor PatchEmbedding::added_rows(const Context& context) const {
  const Tensor added = context(added_), positions = context.params.compute(positions_);
  ops::add_bias_residual(context.stream, patch_rows(added), patch_rows(positions),
                         context.params.compute(bias_));
  for (std::int64_t i = 0; i < class_tokens_; ++i) {
    ops::add_bias_residual(context.stream, token_row(added, i), token_row(positions, i),
                           context.params.compute(tokens_[static_cast<std::size_t>(i)]));
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
  if (context.params.trains(positions_))
    ops::add_in_place(context.stream, context.params.gradient(positions_), added);
  context.ready(positions_);
  for (std::int64_t i = 0; i < class_tokens_; ++i) {
    const ParamId token = tokens_[static_cast<std::size_t>(i)];
    ops::column_sums(context.stream, context.params.gradient(token), token_row(added, i));
    context.ready(token);
  }
  ops::column_sums(context.stream, context.params.gradient(bias_), patch_rows(added));
  context.ready(bias_);
  if (context.params.trains(weight_))
    ops::linear_backward_weight(context.stream, context.params.gradient(weight_), {}, whole,
                                context(patches_));
  context.ready(weight_);
}

}  // namespace trireme
