// SPDX-License-Identifier: Apache-2.0
#include "models/vit/class_head.h"

#include "runtime/ops/convolution/patches.h"
#include "runtime/ops/convolution/pooling.h"

namespace trireme {

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
