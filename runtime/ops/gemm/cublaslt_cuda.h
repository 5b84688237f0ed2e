// SPDX-License-Identifier: Apache-2.0
// Private to the CUDA back end: matmuls by cuBLASLt. The algorithm of a shape is chosen
// once (the library's first suggestion, or what gemm_tuning.h was given) and kept, so that equal
// calls give equal bits.
#pragma once

#include <string>

#include "runtime/device/cuda/cuda_device.h"
#include "runtime/ops/gemm/gemm_key.h"

namespace trireme::ops::cuda {

// D(m, n) = A(m, k) B(k, n) + beta C(m, n), column-major as the library sees it: a row-major matrix
// is its own transpose. A transposed operand lies in memory as (k, m) or (n, k). No padding between
// columns. A and B share a dtype or are 8-bit floats with scales; C has D's.
struct Gemm {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  DType type_a = DType::f32, type_b = DType::f32, output = DType::f32;
  Epilogue epilogue = Epilogue::none;

  const void* a = nullptr;
  const void* b = nullptr;
  const float* scale_a = nullptr;  // of 8-bit operands, on the device
  const float* scale_b = nullptr;
  const void* c = nullptr;  // only read where beta is not 0; may be d
  void* d = nullptr;
  float beta = 0;
  const void* bias = nullptr;      // m values of the output dtype
  void* aux = nullptr;             // (m, n) of the output dtype
  float* bias_gradient = nullptr;  // n values; the output is f32
};

// Whether the library multiplies these 8-bit floats: neither both e5m2 nor at addresses or extents
// that are no multiple of 16 bytes, on a GPU that has such matmuls.
[[nodiscard]] bool multiplies_fp8(Stream& stream, const Gemm& gemm);

// Whether the device is set to compute epilogues with matmuls and the library has this one. Where
// it has not, that is logged once per shape.
[[nodiscard]] bool fuses(Stream& stream, const Gemm& gemm);

// Enqueues the matmul. 8-bit matmuls have A transposed and B not. Sums are in f32; f32 operands
// are multiplied in full or, where the device was set so, as TF32.
void multiply(Stream& stream, const Gemm& gemm);

// `bias` (m) as an epilogue reads it, in the output's dtype: itself, or rounded in the stream's
// scratch memory; nullptr for none.
[[nodiscard]] const void* epilogue_bias(Stream& stream, const Tensor& bias, DType output);

// The library's own version, as found at run time.
[[nodiscard]] std::string cublaslt_version();

}  // namespace trireme::ops::cuda
