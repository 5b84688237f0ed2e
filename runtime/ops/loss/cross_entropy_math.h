// SPDX-License-Identifier: Apache-2.0
// Private: arithmetic of one row's loss, shared by all back ends.
#pragma once

#include <cmath>

#include "runtime/base/host_device.h"
#include "runtime/ops/loss/cross_entropy.h"

namespace trireme::ops {

// Sums over a whole row, relative to its largest value.
struct RowSums {
  double exponentials = 0.0;  // of x - largest
  double distances = 0.0;     // x - largest, for the smoothed part of the target
};

// Nats. target_distance: x[target] - largest.
TRIREME_HOST_DEVICE inline float row_loss(const RowSums& sums, double target_distance,
                                          double largest, const CrossEntropyOptions& options) {
  const double log_sum = std::log(sums.exponentials), whole = log_sum + largest;
  const double z_loss = options.z_loss == 0.0F ? 0.0 : options.z_loss * (whole * whole);
  const auto smoothing = static_cast<double>(options.label_smoothing);
  const double smoothed =
      smoothing == 0.0 ? 0.0 : smoothing * sums.distances / static_cast<double>(options.classes);
  return static_cast<float>(log_sum - (1.0 - smoothing) * target_distance - smoothed + z_loss);
}

// The factor of e^(x - largest) in the gradient: its share in the softmax, plus a term of z_loss,
// whose derivative by x is 2 z_loss log_sum softmax(x).
TRIREME_HOST_DEVICE inline float softmax_factor(double exponentials, double largest, float scale,
                                                const CrossEntropyOptions& options) {
  const double share = static_cast<double>(scale) / exponentials;
  if (options.z_loss == 0.0F) return static_cast<float>(share);
  const double z_loss = options.z_loss;
  return static_cast<float>(share * (1.0 + 2.0 * z_loss * (std::log(exponentials) + largest)));
}

// `target` is a class.
TRIREME_HOST_DEVICE inline float row_weight(const CrossEntropyOptions& options, std::int64_t row,
                                            std::int64_t target) {
  const float own =
      options.weights == nullptr ? 1.0F : options.weights[row / options.rows_per_weight];
  return options.class_weights == nullptr ? own : own * options.class_weights[target];
}

// The other target of a row and the share of its own, which is whole if there is no other.
struct TargetMix {
  std::int64_t other = -1;
  float share = 1.0F;
};
TRIREME_HOST_DEVICE inline TargetMix target_mix(const CrossEntropyOptions& options,
                                                const std::int32_t* targets, std::int64_t row,
                                                std::int64_t rows) {
  if (options.shares == nullptr) return {};
  const std::int64_t other = targets[row + 1 < rows ? row + 1 : 0];
  if (other < 0 || other == targets[row]) return {};
  return {other, options.shares[row]};
}

// Whether a target adds to the loss.
TRIREME_HOST_DEVICE inline bool counts(std::int32_t target) {
  return target >= 0;
}
TRIREME_HOST_DEVICE inline bool counts(float target) {
  return target == target;
}

// Read when the row is computed, because the loss scale changes between replays of a captured step.
TRIREME_HOST_DEVICE inline float gradient_scale_of(const CrossEntropyOptions& options) {
  const float* const scale = options.loss_scale;
  return scale == nullptr ? options.gradient_scale : options.gradient_scale * *scale;
}

}  // namespace trireme::ops
