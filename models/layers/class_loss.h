// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/nn/layer.h"

namespace trireme {

// Cross-entropy of logits (B, classes) against the labels of the batch, with its weights of
// samples: what ends a model of images. Logits become their gradient in training.
void class_loss(const Context& context, const Tensor& logits);

}  // namespace trireme
