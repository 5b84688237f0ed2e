// SPDX-License-Identifier: Apache-2.0
// Batch normalisation over N, H, W of an NHWC tensor (Ioffe & Szegedy, 2015), optionally fused with
// the sum and ReLU at the end of a residual block. x, y, dy, dx: f32, bf16 or f16; per-channel
// values: f32.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

struct BatchNormOptions {
  float epsilon = 1e-5F;
  bool relu = false;  // y = max(normalised (+ summand), 0)
};

// Per-channel values, (C) each: (x - mean) / sqrt(variance + epsilon) * gamma + beta.
struct BatchNormChannels {
  Tensor gamma, beta, mean, variance;
};

// Added to the normalised values: x, or x normalised by its own channels if it has them. Both
// summands are first rounded to the dtype of y, so a sum has the bits of separate passes.
struct BatchNormSummand {
  Tensor x;
  BatchNormChannels channels{};
};

// Accumulators of the running statistics, (C) each; absent: none.
struct BatchNormRunning {
  Tensor mean_sum{}, variance_sum{};
  float weight = 1.0F;
};

// Mean and biased variance of each channel's n values into mean(C) and variance(C); adds weight *
// mean and weight * variance * n / (n - 1) to `running`.
void batch_norm_statistics(Stream& stream, const Tensor& mean, const Tensor& variance,
                           const Tensor& x, const BatchNormRunning& running = {});

// For values that lie in several parts, on other ranks too: mean and variance of all of them, from
// parts(S, 3, C) f32, each part's mean, biased variance and number of values, joined in order.
void batch_norm_join(Stream& stream, const Tensor& mean, const Tensor& variance,
                     const Tensor& parts, const BatchNormRunning& running = {});

// y from the given statistics. y may alias x and the summand.
void batch_norm_apply(Stream& stream, const Tensor& y, const Tensor& x,
                      const BatchNormChannels& channels, const BatchNormOptions& options,
                      const BatchNormSummand& summand = {});

// What replaces the sums over an op's own values: those of all parts, f32, joined in order; for a
// gradient (S, 2, C) as batch_norm_gradient_sums writes them. And the number of a channel's values.
struct NormParts {
  Tensor parts{};
  std::int64_t values = 0;
};

// sums(2, C) f32 of dy, through the ReLU, and of dy * (x - mean): a part of NormParts.
void batch_norm_gradient_sums(Stream& stream, const Tensor& sums, const Tensor& dy, const Tensor& x,
                              const BatchNormChannels& channels, const BatchNormOptions& options);

// The gradient through statistics and apply: dx is overwritten; dgamma, dbeta are accumulated. The
// ReLU's mask is recomputed from x, and dx may alias dy. If apply had a summand, `sum` is its y and
// gives the mask, dy is overwritten with the gradient of the sum (also the summand's), and dx must
// not alias dy. `given` replaces the sums over x and dy, and excludes a summand.
void batch_norm_backward(Stream& stream, const Tensor& dx, const Tensor& dgamma,
                         const Tensor& dbeta, const Tensor& dy, const Tensor& x,
                         const BatchNormChannels& channels, const BatchNormOptions& options,
                         const Tensor& sum = {}, const NormParts& given = {});

}  // namespace trireme::ops
