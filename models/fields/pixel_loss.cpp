// SPDX-License-Identifier: Apache-2.0
#include "models/fields/pixel_loss.h"

#include "runtime/ops/loss/cross_entropy.h"
#include "runtime/ops/random/init.h"

namespace trireme {

PixelLoss::PixelLoss(Blueprint& blueprint, const Shape& pixels, std::int64_t classes,
                     std::vector<float> class_weights)
    : samples_(blueprint.micro_batch()),
      pixels_(pixels.count()),
      classes_(classes),
      class_weights_(std::move(class_weights)) {
  if (class_weights_.empty()) return;
  TRIREME_EXPECTS(static_cast<std::int64_t>(class_weights_.size()) == classes,
                  "{} weights for {} classes", class_weights_.size(), classes);
  weights_ = blueprint.scratch(Shape{classes}, DType::f32);
}

HeadInfo PixelLoss::head(const Activation& logits) const {
  HeadInfo info{.targets = samples_ * pixels_,
                .classes = classes_,
                .logits = logits,
                .kind = TargetKind::pixels};
  info.logits.shape = {info.targets, logits.shape.back()};
  return info;
}

void PixelLoss::forward(const Context& context, const Tensor& logits) const {
  ops::CrossEntropyOptions options{context.loss, classes_, context.training};
  options.thread_rows = true;
  if (const Tensor& weights = context.batch.weights; !weights.empty()) {
    options.weights = weights.as<float>();
    options.rows_per_weight = pixels_;
  }
  if (!class_weights_.empty()) {
    const Tensor weights = context(weights_);
    for (std::int64_t c = 0; c < classes_; ++c)
      ops::fill_constant(context.stream, weights.range(c, 1),
                         class_weights_[static_cast<std::size_t>(c)]);
    options.class_weights = weights.as<float>();
  }
  ops::cross_entropy(context.stream, context.losses, context.correct,
                     logits.reshaped({samples_ * pixels_, logits.shape.back()}),
                     context.batch.targets.reshaped({samples_ * pixels_}), options);
}

}  // namespace trireme
