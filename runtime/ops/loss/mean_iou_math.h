// SPDX-License-Identifier: Apache-2.0
// Private: a sample's overlap from counts of pixels, shared by all back ends.
#pragma once

#include "runtime/base/host_device.h"
#include "runtime/ops/common/float_types.h"

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

// to[0]: the sample's IoU; to[stride]: its dice.
TRIREME_HOST_DEVICE inline void store_overlaps(float* to, std::int64_t stride,
                                               const ClassPixels* pixels, std::int64_t classes) {
  constexpr double smoothing = 1e-6;
  double iou = 0.0, dice = 0.0, counted = 0.0;
  for (std::int64_t c = 0; c < classes; ++c) {
    const auto both = static_cast<double>(pixels[c].both);
    const double sum =
        static_cast<double>(pixels[c].predicted) + static_cast<double>(pixels[c].actual);
    iou += sum == 0.0 ? 1.0 : both / (sum - both);
    if (c > 0) dice += (2.0 * both + smoothing) / (sum + smoothing);
    counted += static_cast<double>(pixels[c].actual);
  }
  to[0] = static_cast<float>(counted * (iou / static_cast<double>(classes)));
  to[stride] = static_cast<float>(counted * (dice / static_cast<double>(classes - 1)));
}

}  // namespace trireme::ops
