// SPDX-License-Identifier: Apache-2.0
// Private to the emulator: which products cuBLASLt has.
#pragma once

#include <cublasLt.h>

#include <cstdint>

struct EmulatedMatmul {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cublasOperation_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  void* aux = nullptr;
  std::int64_t aux_leading = 0;
  std::int32_t processors = 0;
  const void* scale_a = nullptr;
  const void* scale_b = nullptr;
  std::int32_t scale_mode_a = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  std::int32_t scale_mode_b = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  std::int8_t fast_sums = 0;

  [[nodiscard]] void* bias_gradient() const { return const_cast<void*>(bias); }
};
struct EmulatedMatrix {
  cudaDataType_t type = CUDA_R_32F;
  std::int64_t rows = 0, columns = 0, leading = 0;
};

namespace trireme::emulated {

[[nodiscard]] bool is_float8(cudaDataType_t type);
// Alignment of the pointers that an epilogue uses, at most 16 bytes; 0 without any. The algorithm
// was chosen for it.
[[nodiscard]] std::uint64_t epilogue_alignment(const EmulatedMatmul& how);
// CUBLAS_STATUS_NOT_SUPPORTED for everything outside of the documentation's tables.
[[nodiscard]] cublasStatus_t support(const EmulatedMatmul& how, const EmulatedMatrix& a,
                                     const EmulatedMatrix& b, const EmulatedMatrix& c,
                                     const EmulatedMatrix& d);

}  // namespace trireme::emulated
