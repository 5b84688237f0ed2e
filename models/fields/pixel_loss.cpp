// SPDX-License-Identifier: Apache-2.0
#include "models/fields/pixel_loss.h"

#include "runtime/ops/loss/cross_entropy.h"
#include "runtime/ops/random/init.h"

namespace trireme {

PixelLoss::PixelLoss(Blueprint& blueprint, const Shape& pixels, std::int64_t classes,
                     std::vector<float> class_weights, bool dice)
    : samples_(blueprint.micro_batch()),
      pixels_(pixels.count()),
      classes_(classes),
      class_weights_(std::move(class_weights)),
      dice_(dice) {
  std::vector<std::int64_t> extents{samples_};
  extents.insert(extents.end(), pixels.extents().begin(), pixels.extents().end());
  extents.push_back(classes);
  if (const Shape logits(extents); blueprint.spatial().cuts(logits)) {
    gather_.emplace(blueprint, logits, blueprint.compute());
    whole_ = blueprint.scratch(Shape{samples_ * pixels_, classes});
  }
  if (class_weights_.empty()) return;
  TRIREME_EXPECTS(static_cast<std::int64_t>(class_weights_.size()) == classes,
                  "{} weights for {} classes", class_weights_.size(), classes);
  weights_ = blueprint.scratch(Shape{classes}, DType::f32);
}

HeadInfo PixelLoss::head(const Activation& logits) const {
  HeadInfo info{.targets = samples_ * pixels_,
                .classes = classes_,
                .logits = gather_ ? whole_ : logits,
                .kind = TargetKind::pixels,
                .class_weights = class_weights_};
  info.logits.shape = {info.targets, logits.shape.back()};
  return info;
}

void PixelLoss::forward(const Context& context, const Tensor& logits) const {
  const Tensor whole = gather_ ? context(whole_) : logits;
  if (gather_) gather_->gather(context, whole, logits);
  ops::CrossEntropyOptions options{context.loss, classes_, context.training};
  options.thread_rows = true;
  options.rows_per_weight = pixels_;
  if (const Tensor& weights = context.batch.weights; !weights.empty())
    options.weights = weights.as<float>();
  if (!class_weights_.empty()) {
    const Tensor weights = context(weights_);
    for (std::int64_t c = 0; c < classes_; ++c)
      ops::fill_constant(context.stream, weights.range(c, 1),
                         class_weights_[static_cast<std::size_t>(c)]);
    options.class_weights = weights.as<float>();
  }
  const auto loss = dice_ ? &ops::dice_cross_entropy : &ops::cross_entropy;
  loss(context.stream, context.losses, context.correct,
       whole.reshaped({samples_ * pixels_, logits.shape.back()}),
       context.batch.targets.reshaped({samples_ * pixels_}), options);
  if (gather_ && context.training) gather_->take(context, logits, whole);
}

}  // namespace trireme
