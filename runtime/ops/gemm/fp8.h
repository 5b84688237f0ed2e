// SPDX-License-Identifier: Apache-2.0
// Matmuls of 8-bit floats with one scale per tensor, taken from the values at hand (current
// scaling). Tensor cores want both operands with the summed axis contiguous, so what a linear layer
// of weights w (O, I) computes are matmuls a b^T:
//   y (N, O) = x w^T          from x, w                     e4m3, e4m3
//   dx (N, I) = dy (w^T)^T    from dy, w transposed         e5m2, e4m3
//   dw (O, I) = dy^T (x^T)^T  from dy and x, transposed     e5m2, e4m3
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

// A matrix (R, C) of codes: x ~ codes * scale.
struct Fp8Matrix {
  Tensor codes;  // (R, C) f8e4m3 or f8e5m2
  Tensor scale;  // (1) f32 on the device: the power of two that takes the largest |x| to the upper
                 // half of the format's range; NaN or infinity where x holds one
};

// Codes of x (R, C) and of x^T, of one scale; one of the two may be absent.
struct Fp8Operand {
  Tensor codes;       // (R, C)
  Tensor transposed;  // (C, R)
  Tensor scale;       // (1), as above

  [[nodiscard]] Fp8Matrix straight() const { return {codes, scale}; }
  [[nodiscard]] Fp8Matrix turned() const { return {transposed, scale}; }
};

// Writes `q` from x (R, C), a compute dtype, C its last extent: x is read once for its largest
// magnitude and once for all codes. Multiplying by a power of two is exact, so each code is the
// nearest to x. `amax` (1) u32: that magnitude, where the op that wrote x has left it
// (layer_norm.h, gelu.h, ...); x is then read once, and the codes are the same.
void quantize_fp8(Stream& stream, const Fp8Operand& q, const Tensor& x, const Tensor& amax = {});

// The codes alone, by the scale that quantize_fp8 found for the same x before: x is read once.
void encode_fp8(Stream& stream, const Fp8Operand& q, const Tensor& x);

// y(M, N) = a(M, K) b(N, K)^T + bias(N) + residual(M, N), summed in f32 and rounded once to y's
// dtype, a compute dtype. bias f32, or as y on a GPU (linear.h); residual as y, or y itself: y is
// added to. Both may be absent.
void linear_fp8(Stream& stream, const Tensor& y, const Fp8Matrix& a, const Fp8Matrix& b,
                const Tensor& bias = {}, const Tensor& residual = {});

}  // namespace trireme::ops
