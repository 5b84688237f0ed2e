// SPDX-License-Identifier: Apache-2.0
// Private to the CUDA back end: matmuls by cuBLASLt. The algorithm of a shape is chosen once (the
// library's first suggestion, or that of gemm_tuning.h) and kept, so equal calls give equal bits.
#pragma once

#include <string>

#include "runtime/device/cuda/cuda_device.h"
#include "runtime/ops/gemm/gemm_key.h"

namespace trireme::ops::cuda {

// D(m, n) = A(m, k) B(k, n) + beta C(m, n), column-major for the library: a row-major matrix is its
// own transpose. A transposed operand is stored as (k, m) or (n, k). No padding between columns. A
// and B share a dtype or are 8-bit floats with scales; C has D's dtype.
struct Gemm {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  DType type_a = DType::f32, type_b = DType::f32, output = DType::f32;
  Epilogue epilogue = Epilogue::none;

  const void* a = nullptr;
  const void* b = nullptr;
  const void* scale_a = nullptr;  // of 8-bit operands, on the device
  const void* scale_b = nullptr;
  Fp8Scaling scaling_a = Fp8Scaling::tensor, scaling_b = Fp8Scaling::tensor;
  const void* c = nullptr;  // only read if beta is not 0; may be d
  void* d = nullptr;
  float beta = 0;
  const void* bias = nullptr;      // m values of the output dtype
  void* aux = nullptr;             // (m, n) of the output dtype
  float* bias_gradient = nullptr;  // n values; the output is f32
};

// Whether the library multiplies these 8-bit floats: not both e5m2, addresses and extents multiples
// of 16 bytes, and a GPU with such matmuls. With scales per block the library also has its say.
[[nodiscard]] bool multiplies_fp8(Stream& stream, const Gemm& gemm);

// Whether the device fuses epilogues and the library supports this one. Logs once per shape if it
// does not.
[[nodiscard]] bool fuses(Stream& stream, const Gemm& gemm);

// Enqueues the matmul. 8-bit matmuls need A transposed and B not. Sums are in f32; f32 operands are
// multiplied in full precision, or as TF32 if the device is set so.
void multiply(Stream& stream, const Gemm& gemm);

// `bias` (m) in the output's dtype, for an epilogue: itself, or rounded into the stream's scratch
// memory; nullptr for none.
[[nodiscard]] const void* epilogue_bias(Stream& stream, const Tensor& bias, DType output);

// The library's version at run time.
[[nodiscard]] std::string cublaslt_version();

}  // namespace trireme::ops::cuda
