// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/gemm/cublaslt_plan_cuda.h"

#include <algorithm>
#include <array>
#include <bit>

namespace trireme::ops::cuda {
namespace {

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    case DType::f8e4m3:
      return CUDA_R_8F_E4M3;
    case DType::f8e5m2:
      return CUDA_R_8F_E5M2;
    default:
      TRIREME_EXPECTS(false, "{} is not a dtype of matmuls", name_of(dtype));
  }
}

cublasLtEpilogue_t epilogue_of(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::none:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::gelu_bias:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::dgelu:
      return CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::bias_gradient:
      return CUBLASLT_EPILOGUE_BGRADB;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

std::int32_t scale_mode(Fp8Scaling scaling) {
  constexpr std::array modes{
      CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F, CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F,
      CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F, CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0};
  return modes[static_cast<std::size_t>(scaling)];
}

template <typename T>
void set(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute, T value) {
  TRIREME_CUBLASLT(cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof(value)));
}
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;
template <typename T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         T value) {
  TRIREME_CUBLASLT(
      cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)));
}

cublasLtHandle_t create_handle() {
  cublasLtHandle_t handle = nullptr;
  TRIREME_CUBLASLT(cublasLtCreate(&handle));
  return handle;
}

// Never destroyed: the driver may unload before static objects are destroyed.
cublasLtHandle_t library() {
  static cublasLtHandle_t const handle = create_handle();
  return handle;
}

// Multiprocessors that a matmul may use; 0 = all.
int processors_of(const Stream& stream) {
  const int reserved = stream.policy().reserved_processors;
  return reserved == 0 ? 0
                       : std::max(1, CudaDevice::of(stream.device()).multiprocessors() - reserved);
}

}  // namespace

void check_cublaslt(cublasStatus_t status, const char* call, std::source_location where) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  library_failed(call, cublasLtGetStatusName(status), ExitCode::internal, where);
}

std::uint32_t common_alignment(const Gemm& p) {
  std::uintptr_t bits = 16;
  for (const void* const address :
       {p.a, p.b, p.c, static_cast<const void*>(p.d), p.bias, static_cast<const void*>(p.aux),
        static_cast<const void*>(p.bias_gradient)})
    bits |= reinterpret_cast<std::uintptr_t>(address);
  return std::uint32_t{1} << std::countr_zero(bits);
}

GemmKey key_of(const Stream& stream, const Gemm& p) {
  return {.m = p.m,
          .n = p.n,
          .k = p.k,
          .transpose_a = p.transpose_a,
          .transpose_b = p.transpose_b,
          .type_a = p.type_a,
          .type_b = p.type_b,
          .output = p.output,
          .epilogue = p.epilogue,
          .alignment = common_alignment(p),
          .processors = processors_of(stream),
          // Only f32 operands are rounded to TF32, and only if requested.
          .tf32 = p.type_a == DType::f32 && stream.policy().matmul == MatmulPrecision::tf32,
          .scaling_a = p.scaling_a,
          .scaling_b = p.scaling_b};
}

GemmPlan::Matrix GemmPlan::matrix(DType dtype, std::int64_t rows, std::int64_t columns) {
  cublasLtMatrixLayout_t made = nullptr;
  TRIREME_CUBLASLT(cublasLtMatrixLayoutCreate(&made, data_type(dtype),
                                              static_cast<std::uint64_t>(rows),
                                              static_cast<std::uint64_t>(columns), rows));
  return Matrix(made);
}

GemmPlan::GemmPlan(const GemmKey& key, const Gemm& p)
    : alignment_(key.alignment), has_epilogue_(key.epilogue != Epilogue::none) {
  cublasLtMatmulDesc_t description = nullptr;
  TRIREME_CUBLASLT(cublasLtMatmulDescCreate(
      &description, key.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F));
  description_.reset(description);
  const auto operation = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(description, CUBLASLT_MATMUL_DESC_TRANSA, operation(key.transpose_a));
  set(description, CUBLASLT_MATMUL_DESC_TRANSB, operation(key.transpose_b));
  set(description, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(key.epilogue));
  if (p.aux != nullptr) set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, key.m);
  if (key.processors > 0) {
    set(description, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET,
        static_cast<std::int32_t>(key.processors));
  }
  if (key.scaling_a != Fp8Scaling::tensor) {
    set(description, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, scale_mode(key.scaling_a));
    set(description, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, scale_mode(key.scaling_b));
  } else if (key.type_a == DType::f8e4m3 && key.type_b == DType::f8e4m3) {
    // Tensor cores' fast accumulation, with fewer bits, only for forward: gradients are e5m2.
    set(description, CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1});
  }
  a_ = key.transpose_a ? matrix(key.type_a, key.k, key.m) : matrix(key.type_a, key.m, key.k);
  b_ = key.transpose_b ? matrix(key.type_b, key.n, key.k) : matrix(key.type_b, key.k, key.n);
  d_ = matrix(key.output, key.m, key.n);
  set_pointers(p);
}

void GemmPlan::set_pointers(const Gemm& p) {
  cublasLtMatmulDesc_t description = description_.get();
  if (p.bias != nullptr) set(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  if (p.bias_gradient != nullptr)
    set(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias_gradient);
  if (p.aux != nullptr) set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.aux);
  if (p.scale_a != nullptr) set(description, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, p.scale_a);
  if (p.scale_b != nullptr) set(description, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, p.scale_b);
}

std::vector<cublasLtMatmulAlgo_t> GemmPlan::suggest(int max_count) const {
  cublasLtMatmulPreference_t made = nullptr;
  TRIREME_CUBLASLT(cublasLtMatmulPreferenceCreate(&made));
  const Preference preference(made);
  set(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{CudaStream::workspace_bytes});
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(made, attribute, alignment_);
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(max_count));
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(library(), description_.get(), a_.get(), b_.get(), d_.get(),
                                     d_.get(), made, max_count, results.data(), &found);
  // Some library versions report a missing epilogue as an invalid value.
  const bool lacks_epilogue = has_epilogue_ && status == CUBLAS_STATUS_INVALID_VALUE;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || lacks_epilogue) return {};
  check_cublaslt(status, "cublasLtMatmulAlgoGetHeuristic");
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; i < found; ++i) {
    const auto& result = results[static_cast<std::size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(result.algo);
  }
  return algorithms;
}

cublasStatus_t GemmPlan::check(const cublasLtMatmulAlgo_t& algorithm) const {
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status = cublasLtMatmulAlgoCheck(
      library(), description_.get(), a_.get(), b_.get(), d_.get(), d_.get(), &algorithm, &result);
  const bool fits = result.workspaceSize <= CudaStream::workspace_bytes;
  return status == CUBLAS_STATUS_SUCCESS && !fits ? CUBLAS_STATUS_NOT_SUPPORTED : status;
}

void GemmPlan::run(CudaStream& stream, const Gemm& p, const cublasLtMatmulAlgo_t& algorithm) {
  set_pointers(p);
  const float alpha = 1.0F;
  const void* const c = p.beta == 0.0F ? p.d : p.c;
  TRIREME_CUBLASLT(cublasLtMatmul(
      library(), description_.get(), &alpha, p.a, a_.get(), p.b, b_.get(), &p.beta, c, d_.get(),
      p.d, d_.get(), &algorithm, stream.workspace(), CudaStream::workspace_bytes, stream.handle()));
}

}  // namespace trireme::ops::cuda
