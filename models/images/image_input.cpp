// SPDX-License-Identifier: Apache-2.0
#include "models/images/image_input.h"

#include "runtime/ops/loss/cross_entropy.h"

namespace trireme {

MixChoices::MixChoices(Blueprint& blueprint, const ops::MixOptions& options) : options_(options) {
  if (!options.mixes() || !blueprint.options().training) return;
  shares_ = blueprint.scratch(Shape{blueprint.micro_batch()}, DType::f32);
  boxes_ = blueprint.scratch({blueprint.micro_batch(), ops::MixBox::count}, DType::i32);
}

MixChoices::Drawn MixChoices::draw(const Context& context) const {
  const Drawn drawn{context(shares_), context(boxes_)};
  ops::choose_mix(context.stream, drawn.shares, drawn.boxes, context.batch.sample_ids,
                  context.batch.epochs, options_);
  return drawn;
}

ImageInput::ImageInput(Blueprint& blueprint, const Shape& image, const ops::AugmentOptions& augment)
    : augment_(augment), mix_(blueprint, augment.mix) {
  if (augment.mix.mixes() && blueprint.options().training) plain_ = blueprint.scratch(image);
}

void ImageInput::forward(const Context& context, const Tensor& y, const Tensor& x) const {
  ops::AugmentOptions augment = augment_;
  augment.random = context.training;
  const bool mixes = mix_.active(context);
  const Tensor augmented = mixes ? context(plain_) : y;
  ops::augment(context.stream, augmented, x, context.batch.sample_ids, context.batch.epochs,
               augment);
  if (!mixes) return;
  const auto [shares, boxes] = mix_.draw(context);
  ops::mix_images(context.stream, y, augmented, shares, boxes);
}

void ClassLoss::forward(const Context& context, const Tensor& logits) const {
  const Tensor& weights = context.batch.weights;
  const Tensor shares = mix_.active(context) ? mix_.draw(context).shares : Tensor{};
  ops::cross_entropy(context.stream, context.losses, context.correct, logits, context.batch.targets,
                     {context.loss, logits.shape[1], context.training,
                      weights.empty() ? nullptr : weights.as<float>(),
                      shares.empty() ? nullptr : shares.as<float>()});
}

}  // namespace trireme
