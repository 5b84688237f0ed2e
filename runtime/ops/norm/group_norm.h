// SPDX-License-Identifier: Apache-2.0
// Group normalisation (Wu & He, 2018) of (N, [D,] H, W, C): each sample's channels are normalised
// in groups of adjacent ones over all positions; with a group for each channel it is instance
// normalisation (Ulyanov et al., 2016). x, y, dy, dx: f32, bf16 or f16.
#pragma once

#include "runtime/ops/norm/batch_norm.h"

namespace trireme::ops {

struct GroupNormOptions {
  std::int64_t groups = 1;  // divides C
  float epsilon = 1e-5F;
  bool relu = false;  // y = max(normalised, 0)
};

// y from the channels' gamma(C) and beta(C). Writes mean(N, C) and biased variance(N, C) of each
// channel's group. y may alias x. For a part of each sample, `given` has the statistics of all
// parts, (S, 3 N, C): for each sample what batch_norm_join takes.
void group_norm_forward(Stream& stream, const Tensor& y, const Tensor& x,
                        const BatchNormChannels& channels, const GroupNormOptions& options,
                        const NormParts& given = {});

// dx is overwritten and may alias dy; dgamma(C), dbeta(C) are accumulated, or absent. The ReLU's
// mask is recomputed from x. `given`: (S, 2 N, C), for each sample what batch_norm_gradient_sums
// writes.
void group_norm_backward(Stream& stream, const Tensor& dx, const Tensor& dgamma,
                         const Tensor& dbeta, const Tensor& dy, const Tensor& x,
                         const BatchNormChannels& channels, const GroupNormOptions& options,
                         const NormParts& given = {});

}  // namespace trireme::ops
