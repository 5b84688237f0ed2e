// SPDX-License-Identifier: Apache-2.0
#include "models/fields/value_loss.h"

#include "runtime/ops/elementwise/activation.h"
#include "runtime/ops/elementwise/elementwise.h"

namespace trireme {

ValueLossChoice value_loss_choice(const TrainConfig& train, OutputTransform transform,
                                  float scale) {
  const auto kind = train.loss == LossChoice::mae     ? ops::ValueLossKind::mae
                    : train.loss == LossChoice::huber ? ops::ValueLossKind::huber
                                                      : ops::ValueLossKind::mse;
  return {kind, static_cast<float>(train.huber_delta), transform, scale};
}

ValueLoss::ValueLoss(Blueprint& blueprint, const Shape& sample, const ValueLossChoice& choice)
    : choice_(choice), shape_{blueprint.micro_batch(), sample.count()} {
  std::vector<std::int64_t> extents{blueprint.micro_batch()};
  extents.insert(extents.end(), sample.extents().begin(), sample.extents().end());
  if (const Shape all(extents); sample.rank() > 1 && blueprint.spatial().cuts(all)) {
    gather_.emplace(blueprint, all, blueprint.compute());
    whole_ = blueprint.scratch(shape_);
  }
  if (choice.transform == OutputTransform::tanh && blueprint.options().training)
    predictions_ = blueprint.scratch(shape_);
}

void ValueLoss::forward(const Context& context, const Tensor& held) const {
  const Tensor outputs = gather_ ? context(whole_) : held.reshaped(shape_);
  if (gather_) gather_->gather(context, outputs, held);
  const bool transforms = choice_.transform == OutputTransform::tanh;
  if (transforms) ops::tanh_forward(context.stream, outputs, outputs, choice_.scale);
  const bool returns = transforms && context.training;
  if (returns) ops::cast(context.stream, context(predictions_), outputs);
  const Tensor& weights = context.batch.weights;
  ops::value_loss(context.stream, context.losses, context.correct, outputs, context.batch.targets,
                  {.kind = choice_.kind,
                   .delta = choice_.delta,
                   .gradient_scale = context.loss.gradient_scale,
                   .loss_scale = context.loss.loss_scale,
                   .write_gradient = context.training,
                   .weights = weights.empty() ? nullptr : weights.as<float>()});
  if (returns)
    ops::tanh_backward(context.stream, outputs, outputs, context(predictions_), choice_.scale);
  if (gather_ && context.training) gather_->take(context, held, outputs);
}

}  // namespace trireme
