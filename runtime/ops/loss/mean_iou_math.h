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

TRIREME_HOST_DEVICE inline float overlap_of(const ClassPixels* pixels, std::int64_t classes) {
  double sum = 0.0, counted = 0.0;
  for (std::int64_t c = 0; c < classes; ++c) {
    const ClassPixels& of = pixels[c];
    const unsigned either = of.predicted + of.actual - of.both;
    sum += either == 0 ? 1.0 : static_cast<double>(of.both) / static_cast<double>(either);
    counted += static_cast<double>(of.actual);
  }
  return static_cast<float>(counted * (sum / static_cast<double>(classes)));
}

}  // namespace trireme::ops
