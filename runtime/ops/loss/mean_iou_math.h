// SPDX-License-Identifier: Apache-2.0
// Private: a sample's overlap from counts of pixels, shared by all back ends.
#pragma once

#include "runtime/base/host_device.h"
#include "runtime/ops/common/float_types.h"
#include "runtime/ops/loss/mean_iou.h"
#include "runtime/ops/update/loss_sums.h"

namespace trireme::ops {

// Of one class; counts of pixels.
struct ClassPixels {
  unsigned both = 0, predicted = 0, actual = 0;
};

template <typename T>
TRIREME_HOST_DEVICE inline std::int64_t first_largest(const T* row, std::int64_t classes) {
  std::int64_t best = 0;
  for (std::int64_t c = 1; c < classes; ++c) {
    if (load(row[c]) > load(row[best])) best = c;
  }
  return best;
}

// A sample's column of scores.
TRIREME_HOST_DEVICE inline void store_scores(float* to, std::int64_t stride,
                                             const ClassPixels* pixels, double loss, double correct,
                                             const MeanIouOptions& options) {
  constexpr double smoothing = 1e-6;
  double iou = 0.0, dice = 0.0, counted = 0.0, seen = 0.0, marked = 0.0;
  for (std::int64_t c = 0; c < options.classes; ++c) {
    const auto both = static_cast<double>(pixels[c].both);
    const double sum =
        static_cast<double>(pixels[c].predicted) + static_cast<double>(pixels[c].actual);
    counted += static_cast<double>(pixels[c].actual);
    if (sum == 0.0 && !options.absent_counts) continue;
    seen += 1;
    iou += sum == 0.0 ? 1.0 : both / (sum - both);
    if (c == 0) continue;
    marked += 1;
    dice += (2.0 * both + smoothing) / (sum + smoothing);
  }
  const bool any = counted > 0;
  const double n = any ? counted : 1.0;
  const double values[] = {loss / n,
                           correct / n,
                           any ? iou / seen : 0.0,
                           any && marked > 0 ? dice / marked : 0.0,
                           counted,
                           any ? 1.0 : 0.0,
                           any && marked > 0 ? 1.0 : 0.0};
  for (int i = 0; i < LossSums::count; ++i)
    to[i * stride] = static_cast<float>(values[i]);
}

}  // namespace trireme::ops
