// SPDX-License-Identifier: Apache-2.0
// Mixes the images of two samples: mixup (Zhang et al., 2018), a weighted sum, and CutMix (Yun et
// al., 2019), a box of the other. The other is the next row of the micro-batch (cyclic). The share
// is drawn by (seed, epoch, sample id), so micro-batches, which are equal in every layout, are
// mixed equally in all of them.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

struct MixOptions {
  // The kept share is drawn from Beta(a, a); 0: never. If both are set, each gets half of the
  // samples.
  double mixup = 0, cutmix = 0;
  std::int64_t height = 0, width = 0;  // of the images
  std::uint64_t seed = 0;
  [[nodiscard]] bool mixes() const { return mixup > 0 || cutmix > 0; }
};
// Above it, drawing by rejection is slow.
inline constexpr double max_mix_parameter = 4;

// One row of `boxes` (B, 4) i32: rows [top, bottom) and columns [left, right) taken from the other
// image; all 0 if it is mixed in everywhere.
struct MixBox {
  enum Index : int { top, bottom, left, right, count };
};

// shares(B) f32 of a sample's own image and label, and boxes(B, 4) i32.
void choose_mix(Stream& stream, const Tensor& shares, const Tensor& boxes, const Tensor& sample_ids,
                const Tensor& epochs, const MixOptions& options);

// Mixes y(B, H, W, C) from x, of one compute dtype, by these choices.
void mix_images(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& shares,
                const Tensor& boxes);

}  // namespace trireme::ops
