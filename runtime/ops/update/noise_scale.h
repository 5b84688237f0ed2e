// SPDX-License-Identifier: Apache-2.0
// The gradient noise scale, from squared gradient norms over few and over many samples (McCandlish
// et al., "An Empirical Model of Large-Batch Training", 2018, appendix A.1).
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

// Layout of its state: f64, NoiseState::count elements on the device. All zero before the first
// measurement. Averages start at zero, so both lack the same share of their value, and their
// quotient is that of unbiased estimates.
struct NoiseState {
  enum Index : int {
    trace,         // running mean of the estimated trace of a sample's covariance
    square,        // running mean of the estimated squared norm of the true gradient
    measurements,  // number of measurements
    last_trace,    // of the last one
    last_square,
    count
  };
};

struct NoiseOptions {
  double small = 1;          // samples of a micro-batch
  double micro_batches = 2;  // of the global batch
  double decay = 0.95;       // of the running means, per measurement
  double targets = 1;        // of the global batch with none ignored: divides gradients
  Tensor loss_scale{};       // (1) f32 factor of the gradients; absent: 1
  Tensor sums{};             // (micro-batches, LossSums::count) f64 of the step; absent: all count
};

// squares(2) f64: the sum over micro-batches of the squared norm of each one's contribution to the
// step's gradient, and the squared norm of that gradient. With B samples in all, b per micro-batch
// and g the mean gradient, E|g_b|^2 = |G|^2 + tr(S) / b, so that
//   |G|^2 = (B |g_B|^2 - b |g_b|^2) / (B - b),  tr(S) = (|g_b|^2 - |g_B|^2) / (1 / b - 1 / B).
// Squares that are not finite change nothing. The same bits on every back end.
void estimate_noise(Stream& stream, const Tensor& state, const Tensor& squares,
                    const NoiseOptions& options);

}  // namespace trireme::ops
