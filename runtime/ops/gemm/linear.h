// SPDX-License-Identifier: Apache-2.0
// Matmuls of linear layers. Weights are (out, in), row-major, as in PyTorch's Linear. x, w, y, dy,
// dx share a compute dtype (f32, bf16 or f16); dw and db are f32, and so is bias, which on CUDA may
// have y's dtype instead. Matmuls accumulate in fp32.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

// y(N, O) = x(N, I) w(O, I)^T + bias(O) + residual(N, O); bias and residual may be absent (empty).
// residual may not alias y. N is the product of x's leading extents.
void linear_forward(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& w,
                    const Tensor& bias = {}, const Tensor& residual = {});

// dx(N, I) = dy(N, O) w(O, I), or dx += ... when `accumulate`.
void linear_backward_input(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w,
                           bool accumulate = false);

// dw(O, I) += dy(N, O)^T x(N, I) and db(O) += column sums of dy; db may be absent. Both f32, always
// accumulated.
void linear_backward_weight(Stream& stream, const Tensor& dw, const Tensor& db, const Tensor& dy,
                            const Tensor& x);

// The two matmuls beside a GELU, fused with it. If the policy fuses epilogues (ExecutionPolicy::
// fused_epilogues), one pass over the wide activations is saved and GELU sees unrounded sums;
// otherwise the bits are those of separate ops.
// pre(N, O) = x(N, I) w(O, I)^T + bias(O); y(N, O) = gelu(pre). bias may be absent.
void linear_gelu_forward(Stream& stream, const Tensor& y, const Tensor& pre, const Tensor& x,
                         const Tensor& w, const Tensor& bias = {});

// dx(N, I) = dy(N, O) w(O, I) * gelu'(pre(N, I)): backward of a layer whose input was gelu(pre).
void linear_gelu_backward_input(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w,
                                const Tensor& pre);

}  // namespace trireme::ops
