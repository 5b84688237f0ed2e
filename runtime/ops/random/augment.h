// SPDX-License-Identifier: Apache-2.0
// Image batches to normalised tensors, with random crop and flip keyed by (seed, epoch, sample id):
// the same image in every layout, worker count and device.
#pragma once

#include <array>

#include "runtime/ops/random/mix.h"

namespace trireme::ops {

struct AugmentOptions {
  std::int64_t crop_padding =
      0;               // pad all sides by this (zeros after normalisation), crop back at random
  bool flip = false;   // horizontal, with probability one half
  bool random = true;  // false: evaluation, neither crop nor flip
  std::array<float, 4> mean{};  // of bytes: per channel, in units of [0, 1]
  std::array<float, 4> stddev{1, 1, 1, 1};
  std::uint64_t seed = 0;
  MixOptions mix{};  // applied by the model after augmentation; augment ignores it
};

// y(B, H, W, C), a compute dtype, from images(B, H, W, C); sample_ids(B) and epochs(B) i64. u8
// images are normalised, C <= 4; f32 images already are, with any C.
void augment(Stream& stream, const Tensor& y, const Tensor& images, const Tensor& sample_ids,
             const Tensor& epochs, const AugmentOptions& options);

}  // namespace trireme::ops
