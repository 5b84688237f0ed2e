// SPDX-License-Identifier: Apache-2.0
// The matmuls that cublasLtMatmul() of cuBLAS 13 supports, as far as the engine uses them: from
// cublasLt.h, checked against calls in use on GPUs (README.md).
#include "tests/emulation/cublaslt_support.h"

#include <algorithm>
#include <array>

#include "tests/emulation/machine.h"

namespace trireme::emulated {
namespace {

constexpr auto type_e4m3 = CUDA_R_8F_E4M3, type_e5m2 = CUDA_R_8F_E5M2;
constexpr auto type_bf16 = CUDA_R_16BF, type_f16 = CUDA_R_16F, type_f32 = CUDA_R_32F;

struct Row {
  cublasComputeType_t compute;
  cudaDataType_t a, b, c, d;
  cudaDataType_t bias;  // if CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE is not set
};

// Scale type f32. Two operands of e5m2 are in no table.
constexpr std::array rows{
    Row{CUBLAS_COMPUTE_32F, type_bf16, type_bf16, type_bf16, type_bf16, type_bf16},
    Row{CUBLAS_COMPUTE_32F, type_f16, type_f16, type_f16, type_f16, type_f16},
    Row{CUBLAS_COMPUTE_32F, type_bf16, type_bf16, type_f32, type_f32, type_f32},
    Row{CUBLAS_COMPUTE_32F, type_f16, type_f16, type_f32, type_f32, type_f32},
    Row{CUBLAS_COMPUTE_32F, type_f32, type_f32, type_f32, type_f32, type_f32},
    Row{CUBLAS_COMPUTE_32F_FAST_TF32, type_f32, type_f32, type_f32, type_f32, type_f32},
    Row{CUBLAS_COMPUTE_32F, type_e4m3, type_e4m3, type_bf16, type_bf16, type_bf16},
    Row{CUBLAS_COMPUTE_32F, type_e4m3, type_e4m3, type_f16, type_f16, type_f16},
    Row{CUBLAS_COMPUTE_32F, type_e4m3, type_e4m3, type_f32, type_f32, type_bf16},
    Row{CUBLAS_COMPUTE_32F, type_e4m3, type_e5m2, type_bf16, type_bf16, type_bf16},
    Row{CUBLAS_COMPUTE_32F, type_e4m3, type_e5m2, type_f16, type_f16, type_f16},
    Row{CUBLAS_COMPUTE_32F, type_e4m3, type_e5m2, type_f32, type_f32, type_bf16},
    Row{CUBLAS_COMPUTE_32F, type_e5m2, type_e4m3, type_bf16, type_bf16, type_bf16},
    Row{CUBLAS_COMPUTE_32F, type_e5m2, type_e4m3, type_f16, type_f16, type_f16},
    Row{CUBLAS_COMPUTE_32F, type_e5m2, type_e4m3, type_f32, type_f32, type_bf16}};

bool uses_bias(const EmulatedMatmul& how) {
  return how.epilogue == CUBLASLT_EPILOGUE_BIAS ||
         how.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS ||
         how.epilogue == CUBLASLT_EPILOGUE_BGRADB;
}

bool uses_aux(const EmulatedMatmul& how) {
  return how.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || how.epilogue == CUBLASLT_EPILOGUE_DGELU;
}

// The column stride must be a multiple of 16 bytes.
bool packed(const EmulatedMatrix& matrix) {
  const std::int64_t size = is_float8(matrix.type) ? 1 : matrix.type == type_f32 ? 4 : 2;
  return matrix.leading * size % 16 == 0;
}

bool shapes_agree(const EmulatedMatmul& how, const EmulatedMatrix& a, const EmulatedMatrix& b,
                  const EmulatedMatrix& d) {
  const bool ta = how.transpose_a == CUBLAS_OP_T, tb = how.transpose_b == CUBLAS_OP_T;
  return (ta ? a.columns : a.rows) == d.rows && (tb ? b.rows : b.columns) == d.columns &&
         (ta ? a.rows : a.columns) == (tb ? b.columns : b.rows) && a.leading >= a.rows &&
         b.leading >= b.rows && d.leading >= d.rows;
}

// Scales per block: 1 x 32 from Blackwell on, 1 x 128 and 128 x 128 on Hopper, where two of the
// latter are in no table. Without fast accumulation; no epilogue but a bias.
bool blocks_supported(const EmulatedMatmul& how, const EmulatedMatrix& d) {
  constexpr int scalar = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  constexpr int row_128 = CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
  constexpr int square_128 = CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
  constexpr int row_32 = CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0;
  const int a = how.scale_mode_a, b = how.scale_mode_b;
  if (a == scalar && b == scalar) return true;
  const auto bits =
      reinterpret_cast<std::uintptr_t>(how.scale_a) | reinterpret_cast<std::uintptr_t>(how.scale_b);
  if (how.scale_a == nullptr || how.scale_b == nullptr || bits % 16 != 0 || how.fast_sums != 0 ||
      (how.epilogue != CUBLASLT_EPILOGUE_DEFAULT && how.epilogue != CUBLASLT_EPILOGUE_BIAS))
    return false;
  const int capability = Machine::get().capability;
  if (a == row_32 || b == row_32) return a == b && capability >= 100;
  const bool pair =
      (a == row_128 && (b == row_128 || b == square_128)) || (a == square_128 && b == row_128);
  return pair && capability == 90 && d.rows % 4 == 0 && d.columns % 4 == 0;
}

}  // namespace

bool is_float8(cudaDataType_t type) {
  return type == type_e4m3 || type == type_e5m2;
}

std::uint64_t epilogue_alignment(const EmulatedMatmul& how) {
  std::uintptr_t bits = 16;
  if (uses_bias(how)) bits |= reinterpret_cast<std::uintptr_t>(how.bias);
  if (uses_aux(how)) bits |= reinterpret_cast<std::uintptr_t>(how.aux);
  return uses_bias(how) || uses_aux(how) ? bits & (~bits + 1) : 0;
}

cublasStatus_t support(const EmulatedMatmul& how, const EmulatedMatrix& a, const EmulatedMatrix& b,
                       const EmulatedMatrix& c, const EmulatedMatrix& d) {
  const auto row = std::ranges::find_if(rows, [&](const Row& each) {
    return each.compute == how.compute && each.a == a.type && each.b == b.type &&
           each.c == c.type && each.d == d.type;
  });
  if (row == rows.end() || !shapes_agree(how, a, b, d)) return CUBLAS_STATUS_NOT_SUPPORTED;
  // The engine's vectors are of the output's type.
  if (uses_bias(how) && (row->bias != d.type || how.bias == nullptr))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (uses_aux(how) && (how.aux == nullptr || how.aux_leading % 8 != 0 ||
                        how.aux_leading < d.rows || epilogue_alignment(how) < 16))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (!is_float8(a.type)) {
    const bool scaled = how.scale_a != nullptr || how.scale_b != nullptr || how.fast_sums != 0;
    return scaled ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
  }
  const bool tn = how.transpose_a == CUBLAS_OP_T && how.transpose_b == CUBLAS_OP_N;
  return tn && packed(a) && packed(b) && packed(d) && blocks_supported(how, d)
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_NOT_SUPPORTED;
}

}  // namespace trireme::emulated
