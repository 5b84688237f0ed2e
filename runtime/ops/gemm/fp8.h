// SPDX-License-Identifier: Apache-2.0
// Matmuls of 8-bit floats, scaled from their current values. Delayed scaling is left out: its
// history of maxima is state that checkpoints would have to keep, and values that grow between two
// steps saturate. Tensor cores need both operands contiguous along the summed axis, so a linear
// layer of weights w (O, I) computes matmuls a b^T:
//   y (N, O) = x w^T          from x, w
//   dx (N, I) = dy (w^T)^T    from dy, w transposed
//   dw (O, I) = dy^T (x^T)^T  from dy and x, transposed
// All scales are powers of two, rounded up, so that no code saturates and scaling is exact.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

// Which elements of a matrix (R, C), summed along C, share a scale, and where the scales lie: as
// cuBLASLt reads them. The last blocks of a row or column may be partial.
enum class Fp8Scaling : std::uint8_t {
  tensor,      // all: (1) f32
  row_128,     // 1 x 128: (ceil(C / 128), R) f32
  square_128,  // 128 x 128: (ceil(R / 128), S) f32, S = ceil(C / 128) rounded up to fours
  row_32       // 1 x 32 (OCP Microscaling formats v1.0, MXFP8): u8, the scale's exponent + 127
               // (E8M0, 255: NaN), in tiles of 128 rows and 4 blocks, tile after tile along a row;
               // in a tile block b of row r is at r % 32 * 16 + r / 32 * 4 + b. Padding is 0.
};
[[nodiscard]] DType fp8_scale_dtype(Fp8Scaling scaling);
[[nodiscard]] Shape fp8_scale_shape(Fp8Scaling scaling, const Shape& matrix);

// A matrix (R, C) of codes: x ~ codes * scale.
struct Fp8Matrix {
  Tensor codes;  // (R, C) f8e4m3 or f8e5m2; blocks, whose values differ less, f8e4m3
  Tensor scale;  // on the device: the powers of two that map the largest |x| of a block to the
                 // upper half of the format's range; NaN or infinity if the block holds one
  Fp8Scaling scaling = Fp8Scaling::tensor;
};

// Codes of x (R, C) and of x^T (C, R); either may be absent. Both have the scaling of the other,
// and with Fp8Scaling::tensor also the scale.
struct Fp8Operand {
  Fp8Matrix straight{}, turned{};

  [[nodiscard]] const Fp8Matrix& any() const { return straight.codes.empty() ? turned : straight; }
};

// Writes `q` from x (R, C), a compute dtype, with C its last extent. Multiplying by a power of two
// is exact, so each code is the nearest to x. With blocks, x is read once for all that is wanted;
// with Fp8Scaling::tensor once for its largest magnitude and once for all codes. `amax` (1) u32:
// that magnitude, if the op that wrote x has stored it (row_norm.h, gelu.h, ...); then x is read
// once, with the same codes. Blocks have no use for it.
void quantize_fp8(Stream& stream, const Fp8Operand& q, const Tensor& x, const Tensor& amax = {});

// Only the codes, with the scale of an earlier quantize_fp8 of the same x: reads x once. Scales of
// blocks come with their codes: then the same as quantize_fp8.
void encode_fp8(Stream& stream, const Fp8Operand& q, const Tensor& x);

// y(M, N) = a(M, K) b(N, K)^T + bias(N) + residual(M, N), summed in f32 and rounded once to y's
// dtype, a compute dtype. bias is f32, or y's dtype on a GPU (linear.h); residual has y's dtype, or
// is y itself, which accumulates. Both may be absent. Both operands have scaling `tensor`, both
// `row_32`, or one `row_128` and the other that or `square_128`.
void linear_fp8(Stream& stream, const Tensor& y, const Fp8Matrix& a, const Fp8Matrix& b,
                const Tensor& bias = {}, const Tensor& residual = {});

}  // namespace trireme::ops
