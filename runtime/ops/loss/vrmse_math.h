// SPDX-License-Identifier: Apache-2.0
// Private: the sums of one channel of a sample, shared by all back ends.
#pragma once

#include <cmath>

#include "runtime/base/host_device.h"
#include "runtime/ops/common/float_types.h"

namespace trireme::ops {

struct ChannelErrors {
  double count = 0, targets = 0, squares = 0;  // of errors

  // Targets first, to know their mean when variations are summed.
  template <typename T>
  TRIREME_HOST_DEVICE void add(T prediction, float target) {
    if (target != target) return;
    const double error = static_cast<double>(load(prediction)) - static_cast<double>(target);
    count += 1;
    targets += target;
    squares += error * error;
  }
  [[nodiscard]] TRIREME_HOST_DEVICE double mean() const { return count > 0 ? targets / count : 0; }
  [[nodiscard]] TRIREME_HOST_DEVICE double relative(double variations) const {
    constexpr double smallest = 1e-7;
    const double variance = count > 1 ? variations / (count - 1) : 0;
    return sqrt(squares / count / (variance + smallest));
  }
};

// The square of its distance from the mean; 0 if it does not count.
TRIREME_HOST_DEVICE inline double variation(float target, double mean) {
  const double distance = target == target ? static_cast<double>(target) - mean : 0.0;
  return distance * distance;
}

// Of a sample, over its channels.
struct SampleErrors {
  double sum = 0, channels = 0, count = 0;

  TRIREME_HOST_DEVICE void add(const ChannelErrors& of, double variations) {
    if (of.count == 0) return;
    sum += of.relative(variations);
    channels += 1;
    count += of.count;
  }
  [[nodiscard]] TRIREME_HOST_DEVICE float result() const {
    return channels > 0 ? static_cast<float>(count * (sum / channels)) : 0.0F;
  }
};

}  // namespace trireme::ops
