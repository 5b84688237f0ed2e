// SPDX-License-Identifier: Apache-2.0
// Element-wise parts of Muon (Jordan et al., 2024), which replaces a momentum X by roughly the
// nearest matrix with orthonormal rows or columns. Newton-Schulz: five times
//   X <- X (a I + b G + c G^2),  G = X^T X
// after dividing X by its Frobenius norm, so that no singular value exceeds 1. The norm is the root
// of the first G's trace: if X is split into blocks of rows, on one rank or several, they only have
// to share the sum of their G.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

inline constexpr int newton_schulz_steps = 5;

// Matrices (rows, columns), row-major, one every `stride` elements.
struct MatrixBlocks {
  std::int64_t count = 1;
  std::int64_t stride = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  bool transposed = false;  // the logical matrices are (columns, rows)
};

// y(count, N, K), f32 or bf16, = the matrices of x (f32), transposed if requested.
void load_matrices(Stream& stream, const Tensor& y, const Tensor& x, const MatrixBlocks& blocks);
// The inverse, times `factor`; nothing else of x changes.
void store_matrices(Stream& stream, const Tensor& x, const Tensor& y, const MatrixBlocks& blocks,
                    float factor);

// g(K, K) = gram(K, K) f32 * s^2 in g's dtype, scale(1) f32 = s: 1, or with `normalize` 1 /
// sqrt(trace of gram). For a trace of 0 it is 0, and so are all results.
void newton_schulz_gram(Stream& stream, const Tensor& g, const Tensor& scale, const Tensor& gram,
                        bool normalize);
// p(K, K) = scale * (a I + b g + c g2), all of one dtype; (a, b, c) = (3.4445, -4.7750, 2.0315).
void newton_schulz_polynomial(Stream& stream, const Tensor& p, const Tensor& g, const Tensor& g2,
                              const Tensor& scale);

}  // namespace trireme::ops
