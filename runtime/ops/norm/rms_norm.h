// SPDX-License-Identifier: Apache-2.0
// RMS normalisation over the last axis (Zhang & Sennrich, 2019), with the residual connection
// before it. x, y, residual, sum and their gradients share a compute dtype; gamma, statistics and
// dgamma are f32.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

// sum = x + residual, rounded, and y = sum * rstd * (offset + gamma) per row; rstd(N) is kept for
// backward. `offset`: 0, or 1 for models that store scales minus 1. residual and sum must both be
// given or both be absent (then x is normalised). sum may alias x or residual. `amax` (1) u32, here
// and below: receives the largest magnitude of y or dx for quantize_fp8; may be absent.
void rms_norm_forward(Stream& stream, const Tensor& y, const Tensor& rstd, const Tensor& x,
                      const Tensor& gamma, float epsilon, const Tensor& residual = {},
                      const Tensor& sum = {}, const Tensor& amax = {}, float offset = 0);

// x: the normalised input. dx += gradient if `accumulate` (for the residual stream's gradient),
// else dx = gradient. dgamma(C) is accumulated. Without dx, or without dgamma, only the other is
// computed, to the same bits.
void rms_norm_backward(Stream& stream, const Tensor& dx, const Tensor& dgamma, const Tensor& dy,
                       const Tensor& x, const Tensor& gamma, const Tensor& rstd, bool accumulate,
                       const Tensor& amax = {}, float offset = 0);

}  // namespace trireme::ops
