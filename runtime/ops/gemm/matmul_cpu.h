// SPDX-License-Identifier: Apache-2.0
// Private: oneDNN matmuls, and the copies that prepare their operands.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/base/dtype.h"
#include "runtime/ops/common/float_types.h"

namespace trireme::ops::cpu {

enum class Transpose : bool { no, yes };

// A row-major matrix for oneDNN: `stride` elements between rows.
struct MatrixView {
  const float* data;
  std::int64_t stride;
  Transpose transpose = Transpose::no;
};

// c(M, N) = a(M, K) b(K, N) + beta * c, in f32. a and b are given as stored; transposed means
// stored as (K, M) and (N, K). oneDNN's inner blocking depends only on the sizes.
void matmul(std::int64_t m, std::int64_t n, std::int64_t k, const MatrixView& a,
            const MatrixView& b, float beta, float* c, std::int64_t c_stride);

// A row length for copies that avoids powers of two: rows at such distances share few sets of the
// first-level cache and evict each other (weight gradients ran at half speed).
[[nodiscard]] constexpr std::int64_t padded_stride(std::int64_t columns) {
  return (columns + 15) / 16 * 16 + 16;
}

// Copies a matrix into f32 rows `to_stride` apart.
template <typename T>
void copy_rows(float* to, std::int64_t to_stride, const T* from, std::int64_t from_stride,
               std::int64_t rows, std::int64_t columns) {
  for (std::int64_t row = 0; row < rows; ++row) {
    float* const __restrict out = to + row * to_stride;
    const T* const __restrict in = from + row * from_stride;
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i)
      out[i] = load(in[i]);
  }
}

// --- bf16 on processors that multiply bf16 natively, and f32 weight gradients. ---

// Whether oneDNN's f32 products read a transposed left operand at full speed: with AVX-512 of Intel
// (batch-reduce kernels) 152 to 174 GFLOP/s of a core's 180, against 127 to 164 for dnnl_sgemm and
// 138 to 164 from copied rows; not on an AMD Zen 5, with 189 to 225 of 266 against 220 to 238 from
// copied rows. Depends only on the processor.
[[nodiscard]] bool multiplies_transposed_well();

// y(N, O) = x w^T + bias + residual; bias (f32) and residual (y's dtype) may be null.
void native_forward(DType dtype, std::int64_t rows, std::int64_t outputs, std::int64_t inputs,
                    void* y, const void* x, const void* w, const float* bias, const void* residual);
// dx(N, I) = dy w, or += if `accumulate`.
void native_backward_input(DType dtype, std::int64_t rows, std::int64_t outputs,
                           std::int64_t inputs, void* dx, const void* dy, const void* w,
                           bool accumulate);
// dw(O, I) += dy^T x, dw in f32.
void native_backward_weight(DType dtype, std::int64_t rows, std::int64_t outputs,
                            std::int64_t inputs, float* dw, const void* dy, const void* x);

}  // namespace trireme::ops::cpu
