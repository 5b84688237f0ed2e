// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/ops/pooling.h"

namespace trireme::ops::cpu {

void max_pool_forward(Stream& stream, const Tensor& y, const Tensor& index, const Tensor& x,
                      const PoolingOptions& options);
void max_pool_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& index,
                       const PoolingOptions& options);
void global_average_pool_forward(Stream& stream, const Tensor& y, const Tensor& x);
void global_average_pool_backward(Stream& stream, const Tensor& dx, const Tensor& dy);

}  // namespace trireme::ops::cpu
