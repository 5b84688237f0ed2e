// SPDX-License-Identifier: Apache-2.0
#include "models/resnet/head.h"

#include <cmath>

#include "runtime/ops/cross_entropy.h"
#include "runtime/ops/pooling.h"

namespace trireme {

ResNetHead::ResNetHead(Blueprint& blueprint, const Shape& input, std::int64_t classes)
    : Layer("head", Shape{}),
      classes_(classes),
      linear_(blueprint, "classifier", input.back(), classes,
              Init::uniform(1.0F / std::sqrt(static_cast<float>(input.back())))),
      pooled_(blueprint.keep({input[0], input.back()})),
      logits_(blueprint.keep({input[0], classes})),
      dpooled_(blueprint.scratch({input[0], input.back()})) {}

HeadInfo ResNetHead::info() const {
  return {.targets = pooled_.shape[0], .classes = classes_, .logits = logits_};
}

void ResNetHead::forward(const Context& context, const Tensor& x, const Tensor& /*y*/) {
  const Tensor pooled = context(pooled_), logits = context(logits_);
  ops::global_average_pool_forward(context.stream, pooled, x);
  linear_.forward(context, logits, pooled);
  ops::cross_entropy(context.stream, context.losses, context.hits, logits, context.batch.targets,
                     {.classes = classes_,
                      .label_smoothing = context.label_smoothing,
                      .gradient_scale = context.gradient_scale,
                      .write_gradient = context.training});
}

void ResNetHead::backward(const Context& context, const Tensor& /*x*/, const Tensor& /*y*/,
                          const Tensor& /*dy*/, const Tensor& dx) {
  const Tensor dpooled = context(dpooled_);
  linear_.backward(context, dpooled, context(logits_), context(pooled_));
  ops::global_average_pool_backward(context.stream, dx, dpooled);
}

}  // namespace trireme
