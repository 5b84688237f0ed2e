// SPDX-License-Identifier: Apache-2.0
#include "models/fields/pixel_loss.h"

#include "runtime/ops/random/init.h"

namespace trireme {

PixelLoss::PixelLoss(Blueprint& blueprint, const Shape& pixels, std::int64_t classes,
                     std::vector<float> class_weights)
    : samples_(blueprint.micro_batch()),
      pixels_(pixels.count()),
      classes_(classes),
      class_weights_(std::move(class_weights)) {
  std::vector<std::int64_t> extents{samples_};
  extents.insert(extents.end(), pixels.extents().begin(), pixels.extents().end());
  extents.push_back(1);
  const Shape each(extents);
  if (blueprint.spatial().cuts(each)) {
    extents.back() = classes;
    cut_.emplace(Cut{{blueprint, Shape(extents), blueprint.compute()},
                     {blueprint, each, DType::f32},
                     blueprint.scratch(Shape{samples_ * pixels_, classes}),
                     blueprint.scratch(each, DType::f32),
                     blueprint.scratch(each, DType::f32),
                     blueprint.scratch(each, DType::i32)});
  }
  if (class_weights_.empty()) return;
  TRIREME_EXPECTS(static_cast<std::int64_t>(class_weights_.size()) == classes,
                  "{} weights for {} classes", class_weights_.size(), classes);
  weights_ = blueprint.scratch(Shape{classes}, DType::f32);
}

HeadInfo PixelLoss::head(const Activation& logits) const {
  HeadInfo info{.targets = samples_ * pixels_,
                .classes = classes_,
                .logits = cut_ ? cut_->whole : logits,
                .kind = TargetKind::pixels};
  info.logits.shape = {info.targets, logits.shape.back()};
  return info;
}

ops::CrossEntropyOptions PixelLoss::options(const Context& context) const {
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
  return options;
}

void PixelLoss::forward(const Context& context, const Tensor& logits) const {
  if (cut_ && context.training) return forward_slabs(context, logits);
  Tensor whole = logits;
  if (cut_) {
    whole = context(cut_->whole);
    cut_->logits.gather(context, whole, logits);
  }
  ops::cross_entropy(context.stream, context.losses, context.correct,
                     whole.reshaped({samples_ * pixels_, logits.shape.back()}),
                     context.batch.targets.reshaped({samples_ * pixels_}), options(context));
}

void PixelLoss::forward_slabs(const Context& context, const Tensor& logits) const {
  const Tensor losses = context(cut_->losses), correct = context(cut_->correct);
  const Tensor targets = context(cut_->targets);
  cut_->pixels.take(context, targets, context.batch.targets);
  ops::CrossEntropyOptions options = this->options(context);
  const Slabs& slabs = cut_->pixels.slabs();
  for (const Slabs::Slab& slab : slabs.local()) {
    options.rows_per_weight = slab.box.volume();
    const Shape rows{samples_ * slab.box.volume()};
    const auto of = [&](const Tensor& held) { return slabs.of(held, slab).reshaped(rows); };
    ops::cross_entropy(context.stream, of(losses), of(correct),
                       slabs.of(logits, slab).reshaped({rows[0], logits.shape.back()}), of(targets),
                       options);
  }
  cut_->pixels.gather(context, context.losses, losses);
  cut_->pixels.gather(context, context.correct, correct);
}

}  // namespace trireme
