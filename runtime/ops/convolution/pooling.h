// SPDX-License-Identifier: Apache-2.0
// Pooling of images (N, H, W, C) and volumes (N, D, H, W, C), f32, bf16 or f16. Padding is never
// the maximum and is not counted in averages.
#pragma once

#include "runtime/device/device.h"
#include "runtime/ops/convolution/per_axis.h"

namespace trireme::ops {

struct PoolingOptions {
  PerAxis window = 3;
  PerAxis stride = 2;
  PerAxis padding = 1;  // on both sides of an axis, at most half the window
};

// (N, [D',] H', W', C) with H' = (H + 2 padding - window) / stride + 1, rounded down. Windows of
// max pooling have at most 256 positions.
[[nodiscard]] Shape max_pool_output_shape(const Shape& x, const PoolingOptions& options);
[[nodiscard]] Shape average_pool_output_shape(const Shape& x, const PoolingOptions& options);

// index u8, of y's shape: position of the maximum inside its window (the first one on ties), for
// backward.
void max_pool_forward(Stream& stream, const Tensor& y, const Tensor& index, const Tensor& x,
                      const PoolingOptions& options);
// dx is overwritten.
void max_pool_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& index,
                       const PoolingOptions& options);

// The mean of the positions of a window that lie inside x.
void average_pool_forward(Stream& stream, const Tensor& y, const Tensor& x,
                          const PoolingOptions& options);
// dx is overwritten.
void average_pool_backward(Stream& stream, const Tensor& dx, const Tensor& dy,
                           const PoolingOptions& options);

// y(N, C) = mean over all axes between N and C of x(N, ..., C).
void global_average_pool_forward(Stream& stream, const Tensor& y, const Tensor& x);
// dx is overwritten.
void global_average_pool_backward(Stream& stream, const Tensor& dx, const Tensor& dy);

}  // namespace trireme::ops
