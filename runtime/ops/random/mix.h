// SPDX-License-Identifier: Apache-2.0
// Pictures of two samples in one: mixup (Zhang et al., 2018), a weighted sum, and CutMix (Yun et
// al., 2019), a box of the other. The other is the next row of the micro-batch, the first after the
// last. How much of it is drawn by (seed, epoch, sample id), so micro-batches, which are the same
// on every layout, are mixed alike on all of them.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

struct MixOptions {
  // The share that stays is drawn from Beta(a, a); 0: never. Where both are set each has half of
  // the samples.
  double mixup = 0, cutmix = 0;
  std::int64_t height = 0, width = 0;  // of the pictures
  std::uint64_t seed = 0;
  [[nodiscard]] bool mixes() const { return mixup > 0 || cutmix > 0; }
};
// Above it draws by rejection take long.
inline constexpr double max_mix_parameter = 4;

// One row of `boxes` (B, 4) i32: the rows [top, bottom) and columns [left, right) that the other
// picture has; all 0 where it is mixed in everywhere.
struct MixBox {
  enum Index : int { top, bottom, left, right, count };
};

// shares(B) f32 of a sample's own picture and label, and boxes(B, 4) i32.
void choose_mix(Stream& stream, const Tensor& shares, const Tensor& boxes, const Tensor& sample_ids,
                const Tensor& epochs, const MixOptions& options);

// y(B, H, W, C) from x, of one compute dtype, as chosen.
void mix_images(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& shares,
                const Tensor& boxes);

}  // namespace trireme::ops
