// SPDX-License-Identifier: Apache-2.0
// Batch normalisation over N, H, W of an NHWC tensor (Ioffe & Szegedy, 2015), with an optional
// fused ReLU. x, y, dy, dx: f32, bf16 or f16; everything per channel: f32.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

struct BatchNormOptions {
  float epsilon = 1e-5F;
  bool relu = false;  // y = max(normalised, 0)
};

// Statistics of this micro-batch into mean(C) and variance(C) (biased); y from them.
void batch_norm_forward(Stream& stream, const Tensor& y, const Tensor& mean, const Tensor& variance,
                        const Tensor& x, const Tensor& gamma, const Tensor& beta,
                        const BatchNormOptions& options);

// y from given running statistics (evaluation).
void batch_norm_inference(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& gamma,
                          const Tensor& beta, const Tensor& mean, const Tensor& variance,
                          const BatchNormOptions& options);

// dx is overwritten; dgamma, dbeta are accumulated. y is read only when options.relu (for its
// mask). dx may alias dy.
void batch_norm_backward(Stream& stream, const Tensor& dx, const Tensor& dgamma,
                         const Tensor& dbeta, const Tensor& dy, const Tensor& x, const Tensor& y,
                         const Tensor& gamma, const Tensor& mean, const Tensor& variance,
                         const BatchNormOptions& options);

// Adds weight * mean and weight * variance * n / (n - 1) to the running-statistics accumulators, n
// values a channel.
void batch_norm_collect(Stream& stream, const Tensor& mean_sum, const Tensor& variance_sum,
                        const Tensor& mean, const Tensor& variance, std::int64_t n, float weight);

}  // namespace trireme::ops
