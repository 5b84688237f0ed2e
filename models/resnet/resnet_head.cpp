// SPDX-License-Identifier: Apache-2.0
#include "models/resnet/resnet_head.h"

#include <cmath>

#include "runtime/ops/convolution/pooling.h"

namespace trireme {

ResNetHead::ResNetHead(Blueprint& blueprint, std::int64_t classes, const ops::MixOptions& mix)
    : Layer("head", Shape{}),
      info_{.targets = blueprint.input()[0], .classes = classes},
      linear_(blueprint, "classifier", blueprint.input().back(), classes,
              Init::uniform(1.0F / std::sqrt(static_cast<float>(blueprint.input().back())))),
      loss_(blueprint, mix),
      pooled_(blueprint.keep({blueprint.input()[0], blueprint.input().back()})),
      dpooled_(blueprint.scratch(pooled_.shape)) {
  info_.logits = blueprint.keep({info_.targets, classes});
}

void ResNetHead::forward(const Context& context, const Tensor& x, const Tensor& /*y*/) {
  const Tensor pooled = context(pooled_), logits = context(info_.logits);
  ops::global_average_pool_forward(context.stream, pooled, x);
  linear_.forward(context, logits, pooled);
  loss_.forward(context, logits);
}

void ResNetHead::backward(const Context& context, const Tensor& /*x*/, const Tensor& /*y*/,
                          const Tensor& /*dy*/, const Tensor& dx) {
  const Tensor dpooled = context(dpooled_);
  linear_.backward(context, dpooled, context(info_.logits), context(pooled_));
  ops::global_average_pool_backward(context.stream, dx, dpooled);
}

}  // namespace trireme
