// SPDX-License-Identifier: Apache-2.0
// Bias and residual of a linear layer as a separate op: for partial products summed over ranks, or
// a bias gradient alone.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

// y(N, O) = x(N, O) + bias(O) + residual(N, O), computed in f32 from left to right and rounded
// once. y and residual share a compute dtype, x has its own; bias is f32. bias and residual may be
// absent. y may alias x or residual if the dtypes agree. N is the product of the leading extents.
void add_bias_residual(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& bias = {},
                       const Tensor& residual = {});

// db(O) f32 += column sums of dy(N, O), f32, bf16 or f16: the same bits as linear_backward_weight.
void column_sums(Stream& stream, const Tensor& db, const Tensor& dy);

}  // namespace trireme::ops
