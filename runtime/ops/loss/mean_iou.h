// SPDX-License-Identifier: Apache-2.0
// How well predicted pixels overlap the true ones (Jaccard index, dice).
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

struct MeanIouOptions {
  std::int64_t classes = 2;
  // A class that is neither predicted nor true counts as 1, as in MLPerf's benchmarks; else it is
  // left out, as in MONAI and nnU-Net.
  bool absent_counts = false;
};
// scores(LossSums::count, B) f32, 0 for a sample without counted targets: the means of its losses
// and correct(B * P) f32; the mean over classes of |predicted and true| / |predicted or true|; that
// over classes but the first of (2 |predicted and true| + s) / (|predicted| + |true| + s), s =
// 1e-6, or 0 without such classes; the number of counted targets, 1, and whether there is a dice.
// logits(B * P, Vp), a compute dtype, with columns from `classes` on as padding: the first arg-max
// is predicted. targets(B * P) i32: -1 counts nowhere.
void mean_iou(Stream& stream, const Tensor& scores, const Tensor& losses, const Tensor& correct,
              const Tensor& logits, const Tensor& targets, const MeanIouOptions& options);

}  // namespace trireme::ops
