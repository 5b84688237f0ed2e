// SPDX-License-Identifier: Apache-2.0
// Small element-wise operations and fixed-order sums. f32, bf16 or f16 unless stated otherwise.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

// y += x.
void add_in_place(Stream& stream, const Tensor& y, const Tensor& x);

// y *= factor, rounded once.
void scale_in_place(Stream& stream, const Tensor& y, float factor);

// y = max(a + b, 0); b may be absent.
void relu_forward(Stream& stream, const Tensor& y, const Tensor& a, const Tensor& b = {});
// dx = dy where y > 0, else 0. dx may alias dy.
void relu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& y);

// y = x converted between compute dtypes (round to nearest even).
void cast(Stream& stream, const Tensor& y, const Tensor& x);

// total(1) f64 += sum of x (f32), in fixed chunks in f64: the same bits for the same x.
void accumulate_sum(Stream& stream, const Tensor& total, const Tensor& x);

// What a linear layer adds to its product, as a separate op: for partial products summed over
// ranks, or a bias gradient alone.

// y(N, O) = x(N, O) + bias(O) + residual(N, O), computed in f32 from left to right and rounded
// once. y and residual share a compute dtype, x has its own; bias is f32. bias and residual may be
// absent. y may alias x or residual if the dtypes agree. N is the product of the leading extents.
void add_bias_residual(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& bias = {},
                       const Tensor& residual = {});

// db(O) f32 += column sums of dy(N, O), f32, bf16 or f16: the same bits as linear_backward_weight.
void column_sums(Stream& stream, const Tensor& db, const Tensor& dy);

}  // namespace trireme::ops
