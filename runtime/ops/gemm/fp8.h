// SPDX-License-Identifier: Apache-2.0
// Matmuls of 8-bit floats with one scale per tensor, from its current values (current scaling).
// Tensor cores need both operands contiguous along the summed axis, so a linear layer of weights w
// (O, I) computes matmuls a b^T:
//   y (N, O) = x w^T          from x, w                     e4m3, e4m3
//   dx (N, I) = dy (w^T)^T    from dy, w transposed         e5m2, e4m3
//   dw (O, I) = dy^T (x^T)^T  from dy and x, transposed     e5m2, e4m3
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

// A matrix (R, C) of codes: x ~ codes * scale.
struct Fp8Matrix {
  Tensor codes;  // (R, C) f8e4m3 or f8e5m2
  Tensor scale;  // (1) f32 on the device: the power of two that maps the largest |x| to the upper
                 // half of the format's range; NaN or infinity if x holds one
};

// Codes of x (R, C) and of x^T with one scale; either may be absent.
struct Fp8Operand {
  Tensor codes;       // (R, C)
  Tensor transposed;  // (C, R)
  Tensor scale;       // (1), as above

  [[nodiscard]] Fp8Matrix straight() const { return {codes, scale}; }
  [[nodiscard]] Fp8Matrix turned() const { return {transposed, scale}; }
};

// Writes `q` from x (R, C), a compute dtype, with C its last extent: reads x once for its largest
// magnitude and once for all codes. Multiplying by a power of two is exact, so each code is the
// nearest to x. `amax` (1) u32: that magnitude, if the op that wrote x has stored it (row_norm.h,
// gelu.h, ...); then x is read once, with the same codes.
void quantize_fp8(Stream& stream, const Fp8Operand& q, const Tensor& x, const Tensor& amax = {});

// Only the codes, with the scale of an earlier quantize_fp8 of the same x: reads x once.
void encode_fp8(Stream& stream, const Fp8Operand& q, const Tensor& x);

// y(M, N) = a(M, K) b(N, K)^T + bias(N) + residual(M, N), summed in f32 and rounded once to y's
// dtype, a compute dtype. bias is f32, or y's dtype on a GPU (linear.h); residual has y's dtype, or
// is y itself, which accumulates. Both may be absent.
void linear_fp8(Stream& stream, const Tensor& y, const Fp8Matrix& a, const Fp8Matrix& b,
                const Tensor& bias = {}, const Tensor& residual = {});

}  // namespace trireme::ops
