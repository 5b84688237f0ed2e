// SPDX-License-Identifier: Apache-2.0
// ResNet (He et al., 2016) in NHWC, with basic or bottleneck blocks (stride in the 3x3 convolution,
// "v1.5"). Stems: `imagenet` is 7x7/2 and a 3x3/2 max-pool, `small` is one 3x3 for images around
// 32x32. The last batch norm of each branch starts at zero, so that a block starts as the identity
// (Goyal et al., 2017).
#pragma once

#include <vector>

#include "runtime/nn/model.h"
#include "runtime/ops/random/augment.h"

namespace trireme {

struct ResNetOptions {
  bool bottleneck = false;
  bool small_stem = false;
  std::vector<std::int64_t> stages = {2, 2, 2,
                                      2};  // blocks per stage; width doubles from stage to stage
  std::int64_t width = 64;  // channels of the first stage (before bottleneck expansion)
  std::int64_t image_size = 224;
  std::int64_t channels = 3;
  std::int64_t classes = 1000;
  ops::AugmentOptions augment;  // applied to the uint8 input; random only in training
};

// Inputs (micro_batch, image_size, image_size, channels) u8; targets (micro_batch) i32.
[[nodiscard]] Chain resnet_chain(const ResNetOptions& options);

}  // namespace trireme
