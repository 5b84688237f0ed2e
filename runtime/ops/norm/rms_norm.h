// SPDX-License-Identifier: Apache-2.0
// Root-mean-square normalisation over the last axis (Zhang & Sennrich, 2019), with the residual
// connection before it. x, y, residual, sum and their gradients share a compute dtype; gamma,
// statistics and dgamma are f32.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

// sum = x + residual, rounded, and y = sum * rstd * (offset + gamma) per row; rstd(N) is kept for
// backward. `offset`: 0, or 1 of models whose scales are stored as what they are above 1.
// residual and sum are given together or not at all: then x itself is normalised. sum may be x or
// residual. `amax` (1) u32, here and below, may be absent: receives what quantize_fp8 wants to know
// of y, or of dx.
void rms_norm_forward(Stream& stream, const Tensor& y, const Tensor& rstd, const Tensor& x,
                      const Tensor& gamma, float epsilon, const Tensor& residual = {},
                      const Tensor& sum = {}, const Tensor& amax = {}, float offset = 0);

// x: what was normalised. dx += gradient (it is added to the residual stream's gradient) when
// `accumulate`, else dx = gradient. dgamma(C) is accumulated. Without dx, or without dgamma, only
// the other is computed, to the same bits.
void rms_norm_backward(Stream& stream, const Tensor& dx, const Tensor& dgamma, const Tensor& dy,
                       const Tensor& x, const Tensor& gamma, const Tensor& rstd, bool accumulate,
                       const Tensor& amax = {}, float offset = 0);

}  // namespace trireme::ops
