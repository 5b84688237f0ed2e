// SPDX-License-Identifier: Apache-2.0
// What a linear layer adds to its product, apart from the product: where partial products of
// several ranks are summed first, or a bias gradient is wanted alone.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

// y(N, O) = x(N, O) + bias(O) + residual(N, O), computed in f32 from left to right and rounded
// once. y and residual share one compute dtype, x has one of its own; bias is f32. bias and
// residual may be absent. y may be x or residual where the dtypes agree. N is the product of the
// leading extents.
void add_bias_residual(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& bias = {},
                       const Tensor& residual = {});

// db(O) f32 += column sums of dy(N, O), f32, bf16 or f16: the very bits that linear_backward_weight
// adds.
void column_sums(Stream& stream, const Tensor& db, const Tensor& dy);

}  // namespace trireme::ops
