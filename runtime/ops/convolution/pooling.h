// SPDX-License-Identifier: Apache-2.0
// Pooling on NHWC tensors, f32, bf16 or f16.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

struct PoolingOptions {
  std::int64_t window = 3;
  std::int64_t stride = 2;
  std::int64_t padding = 1;
};

[[nodiscard]] Shape max_pool_output_shape(const Shape& x, const PoolingOptions& options);

// index(N, H', W', C) u8: position of the maximum inside its window (the first one on ties), for
// backward.
void max_pool_forward(Stream& stream, const Tensor& y, const Tensor& index, const Tensor& x,
                      const PoolingOptions& options);
// dx is overwritten.
void max_pool_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& index,
                       const PoolingOptions& options);

// y(N, C) = mean over H and W of x(N, H, W, C).
void global_average_pool_forward(Stream& stream, const Tensor& y, const Tensor& x);
// dx is overwritten.
void global_average_pool_backward(Stream& stream, const Tensor& dx, const Tensor& dy);

}  // namespace trireme::ops
