// SPDX-License-Identifier: Apache-2.0
// Normalisation over the last axis. x, y, dy, dx: f32, bf16 or f16; gamma, beta, statistics and
// their gradients: f32.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

// Layer normalisation (Ba et al., 2016): y = (x - mean) * rstd * gamma + beta per row; mean(N) and
// rstd(N) are kept for backward. `amax` (1) u32, here and below: the largest magnitude of y or dx
// for quantize_fp8; may be absent.
void layer_norm_forward(Stream& stream, const Tensor& y, const Tensor& mean, const Tensor& rstd,
                        const Tensor& x, const Tensor& gamma, const Tensor& beta,
                        float epsilon = 1e-5F, const Tensor& amax = {});

// dx += gradient if `accumulate` (for the residual stream's gradient), else dx = gradient.
// dgamma(C), dbeta(C) are accumulated. Without dx, or without both dgamma and dbeta, only the rest
// is computed, to the same bits.
void layer_norm_backward(Stream& stream, const Tensor& dx, const Tensor& dgamma,
                         const Tensor& dbeta, const Tensor& dy, const Tensor& x,
                         const Tensor& gamma, const Tensor& mean, const Tensor& rstd,
                         bool accumulate, const Tensor& amax = {});

// RMS normalisation (Zhang & Sennrich, 2019): y = x * rstd * (offset + gamma) per row; rstd(N) is
// kept for backward. `offset`: 0, or 1 for models that store scales minus 1.
void rms_norm_forward(Stream& stream, const Tensor& y, const Tensor& rstd, const Tensor& x,
                      const Tensor& gamma, float epsilon, const Tensor& amax = {},
                      float offset = 0);

// Likewise, without means and beta.
void rms_norm_backward(Stream& stream, const Tensor& dx, const Tensor& dgamma, const Tensor& dy,
                       const Tensor& x, const Tensor& gamma, const Tensor& rstd, bool accumulate,
                       const Tensor& amax = {}, float offset = 0);

}  // namespace trireme::ops
