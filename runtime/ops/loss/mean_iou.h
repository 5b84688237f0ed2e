// SPDX-License-Identifier: Apache-2.0
// How well predicted pixels overlap the true ones (Jaccard index, dice).
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

// overlaps(2, B) f32 = n * mean over the classes of |predicted and true| / |predicted or true|,
// which is 1 for a class that has neither; then n * mean over the classes but the first of (2
// |predicted and true| + s) / (|predicted| + |true| + s), s = 1e-6; n: how many targets of the
// sample count. A sum over samples, divided by all counted targets, so is the mean of samples with
// equal n. logits(B * P, Vp), a compute dtype, with columns from `classes` on as padding: the first
// arg-max is predicted. targets(B * P) i32: -1 counts nowhere.
void mean_iou(Stream& stream, const Tensor& overlaps, const Tensor& logits, const Tensor& targets,
              std::int64_t classes);

}  // namespace trireme::ops
