// SPDX-License-Identifier: Apache-2.0
// The gradient noise scale, from squared norms of gradients over few and over many samples
// (McCandlish et al., "An Empirical Model of Large-Batch Training", 2018, appendix A.1).
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

// Layout of its state: f64, NoiseState::count elements on the device. All zero before the first
// measurement. Averages begin at zero, so each lacks the same share of its value: their quotient is
// that of unbiased estimates.
struct NoiseState {
  enum Index : int {
    trace,         // running mean of the estimated trace of a sample's covariance
    square,        // running mean of the estimated squared norm of the true gradient
    measurements,  // that entered them
    last_trace,    // of the last one
    last_square,
    count
  };
};

struct NoiseOptions {
  double small = 1;          // samples of a micro-batch
  double micro_batches = 2;  // of the global batch
  double decay = 0.95;       // of the running means, for a measurement
  double targets = 1;   // of the global batch, were none ignored: what gradients are divided by
  Tensor loss_scale{};  // (1) f32 that gradients are multiplied by; absent: 1
  Tensor sums{};        // (micro-batches, LossSums::count) f64 of the step; absent: all count
};

// squares(2) f64: the sum over the micro-batches of the squared norm of what each adds to the
// step's gradient, and the squared norm of that. With B samples in all, b in a micro-batch and g
// the mean gradient, E|g_b|^2 = |G|^2 + tr(S) / b, so that
//   |G|^2 = (B |g_B|^2 - b |g_b|^2) / (B - b),  tr(S) = (|g_b|^2 - |g_B|^2) / (1 / b - 1 / B).
// Squares that are not finite change nothing. The same bits on every back end.
void estimate_noise(Stream& stream, const Tensor& state, const Tensor& squares,
                    const NoiseOptions& options);

}  // namespace trireme::ops
