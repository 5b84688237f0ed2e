// SPDX-License-Identifier: Apache-2.0
#include "models/layers/class_loss.h"

#include "runtime/ops/loss/cross_entropy.h"

namespace trireme {

void class_loss(const Context& context, const Tensor& logits) {
  const Tensor& weights = context.batch.weights;
  ops::cross_entropy(context.stream, context.losses, context.hits, logits, context.batch.targets,
                     {.classes = logits.shape[1],
                      .label_smoothing = context.label_smoothing,
                      .gradient_scale = context.gradient_scale,
                      .loss_scale = context.loss_scale,
                      .weights = weights.empty() ? nullptr : weights.as<float>(),
                      .write_gradient = context.training});
}

}  // namespace trireme
