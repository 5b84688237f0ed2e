// SPDX-License-Identifier: Apache-2.0
#include "models/transformer/head.h"

#include "models/layers/blocks.h"
#include "models/transformer/embedding.h"
#include "runtime/device/work_log.h"
#include "runtime/ops/loss/cross_entropy_block.h"
#include "runtime/ops/update/block_sum.h"

namespace trireme {
namespace {

ParamId head_bias(Blueprint& blueprint, const TransformerOptions& options) {
  if (!options.head_bias) return {};
  return blueprint.parameter(
      {.name = "head.bias", .shape = {padded_vocabulary(options.vocabulary)}, .shard_axis = 0});
}

}  // namespace

LanguageHead::LanguageHead(Blueprint& blueprint, const TransformerOptions& options)
    : Layer("head", Shape{}),
      rows_(blueprint, blueprint.decodes() ? 1 : blueprint.rows_of(options.context),
            options.hidden),
      tiles_(blueprint, rows_.whole()),
      tensor_(blueprint.tensor()),
      sum_(blueprint, tiles_.rows()),
      norm_(blueprint, "final_norm", options.norm, rows_, 1.0F / static_cast<float>(options.width)),
      project_(blueprint, blueprint.shared_parameter(token_table_spec(options, "head.weight")),
               padded_vocabulary(options.vocabulary), sum_, head_bias(blueprint, options)),
      normed_(blueprint.keep(rows_.whole())),
      dnormed_(blueprint.until_weight(rows_.local())) {
  info_ = {.targets = rows_.rows(), .classes = options.vocabulary, .kind = TargetKind::tokens};
  info_.whole = tiles_.count() == 1;
  const std::int64_t N = tiles_.rows().rows(), W = project_.block_shape()[2];
  const auto reserve = [&](const Shape& shape) {
    return info_.whole ? blueprint.keep(shape) : blueprint.scratch(shape);
  };
  if (blueprint.options().decode.rows > 1) picked_ = blueprint.scratch(rows_.whole());
  if (!tensor_.blocked()) {
    info_.logits = reserve({N, W});
    return;
  }
  info_.logits = reserve({tensor_.local(), N, W});
  maxima_ = blueprint.scratch(Shape{N}, DType::f32);
  sums_ = blueprint.scratch({tensor_.local(), N, ops::CrossEntropySums::count}, DType::f64);
}

void LanguageHead::forward(const Context& context, const Tensor& x, const Tensor& /*y*/) {
  const Tensor normed = context(normed_), logits = context(info_.logits);
  norm_.forward(context, rows_.own(normed), context.decode == nullptr ? x : pick(context, x));
  rows_.gather(context, normed);
  if (context.decode != nullptr) return project_.forward(context, logits, normed);
  tiles_.each(context, [&](const Context& here, const RowRun& tile) {
    losses(here, tile, context.training && info_.whole);
  });
}

void LanguageHead::losses(const Context& context, const RowRun& tile, bool gradients) const {
  const Tensor logits = context(info_.logits);
  project_.forward(context, logits, tiles_.of(context(normed_), tile));
  const std::int64_t N = tiles_.rows().rows();
  Context here = context;
  here.losses = tiles_.of(context.losses, tile).reshaped({N});
  here.correct = tiles_.of(context.correct, tile).reshaped({N});
  const Tensor targets =
      tiles_.of(context.batch.targets.reshaped({rows_.rows()}), tile).reshaped({N});
  if (tensor_.blocked()) return block_losses(here, targets, gradients);
  ops::cross_entropy(context.stream, here.losses, here.correct, logits, targets,
                     {context.loss, info_.classes, gradients});
}

Tensor LanguageHead::pick(const Context& context, const Tensor& x) const {
  if (picked_.shape.rank() == 0) return x;
  const Tensor picked = context(picked_);
  const std::int64_t width = rows_.whole()[2];
  for (std::int64_t b = 0; b < rows_.rows(); ++b) {
    const std::int64_t row = b * x.shape[1] + context.decode->last[static_cast<std::size_t>(b)];
    const Tensor to = picked.range(b * width, width);
    context.stream.device().copy(context.stream, to.data, x.range(row * width, width).data,
                                 to.bytes());
  }
  return picked;
}

void LanguageHead::block_losses(const Context& context, const Tensor& targets,
                                bool gradients) const {
  const std::int64_t N = tiles_.rows().rows(), W = project_.block_shape()[2];
  const Tensor logits = context(info_.logits), maxima = context(maxima_), sums = context(sums_);
  const Shape block{N, W}, row_sums{N, ops::CrossEntropySums::count};
  const ops::CrossEntropyOptions options = {context.loss, info_.classes, gradients};
  const auto first_class = [&](std::int64_t b) { return (tensor_.first() + b) * W; };

  for (std::int64_t b = 0; b < tensor_.local(); ++b) {
    ops::cross_entropy_block_max(context.stream, maxima, block_of(logits, b, block), first_class(b),
                                 info_.classes, /*accumulate=*/b > 0);
  }
  if (context.tensor != nullptr) context.tensor->all_reduce(context.stream, maxima, ReduceOp::max);
  for (std::int64_t b = 0; b < tensor_.local(); ++b) {
    ops::cross_entropy_block_sums(context.stream, block_of(sums, b, row_sums), maxima,
                                  block_of(logits, b, block), targets, first_class(b), options);
  }
  const Tensor total = block_of(sums, 0, row_sums);
  if (tensor_.local() > 1) ops::sum_blocks(context.stream, total, sums);
  if (context.tensor != nullptr) context.tensor->all_reduce(context.stream, total);
  for (std::int64_t b = 0; b < tensor_.local(); ++b) {
    const bool writes = b == 0;  // all blocks would write the same losses
    ops::cross_entropy_block_finish(context.stream, writes ? context.losses : Tensor{},
                                    writes ? context.correct : Tensor{}, block_of(logits, b, block),
                                    maxima, total, targets, first_class(b), options);
  }
}

void LanguageHead::backward(const Context& context, const Tensor& x, const Tensor& /*y*/,
                            const Tensor& /*dy*/, const Tensor& dx) {
  const Tensor dnormed = context(dnormed_);
  tiles_.each(context, [&](const Context& here, const RowRun& tile) {
    if (!info_.whole) {
      const RepeatedWork repeated;
      losses(here, tile, /*gradients=*/true);
    }
    project_.backward(here, tiles_.of(dnormed, tile), here(info_.logits),
                      tiles_.of(here(normed_), tile));
  });
  norm_.backward(context, dx, dnormed, x, /*accumulate=*/false);
}

void LanguageHead::backward_weight(const Context& context, const Tensor& x) {
  project_.backward_weight(context, context(info_.logits), context(normed_));
  norm_.backward_weight(context, context(dnormed_), x);
}

}  // namespace trireme
