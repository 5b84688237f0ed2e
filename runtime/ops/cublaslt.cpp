// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/cublaslt.h"

#include <cublasLt.h>

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <mutex>
#include <source_location>

#include "runtime/ops/elementwise.h"
#include "runtime/ops/float_types.h"

namespace trireme::ops::cuda {
namespace {

void check(cublasStatus_t status, const char* call,
           std::source_location where = std::source_location::current()) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  library_failed(call, cublasLtGetStatusName(status), ExitCode::internal, where);
}
#define TRIREME_CUBLASLT(call) check((call), #call)

template <typename Handle, cublasStatus_t (*destroy)(Handle)>
struct Destroy {
  void operator()(Handle handle) const noexcept { static_cast<void>(destroy(handle)); }
};
template <typename Handle, cublasStatus_t (*destroy)(Handle)>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<Handle, destroy>>;
using Description = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Matrix = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

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
      TRIREME_EXPECTS(false, "{} is no dtype of matrix products", name_of(dtype));
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
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

template <typename T>
void set(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute, T value) {
  TRIREME_CUBLASLT(cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof(value)));
}
template <typename T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         T value) {
  TRIREME_CUBLASLT(
      cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)));
}

Matrix matrix(DType dtype, std::int64_t rows, std::int64_t columns) {
  cublasLtMatrixLayout_t made = nullptr;
  TRIREME_CUBLASLT(cublasLtMatrixLayoutCreate(&made, data_type(dtype),
                                              static_cast<std::uint64_t>(rows),
                                              static_cast<std::uint64_t>(columns), rows));
  return Matrix(made);
}

// The largest power of two, up to what cudaMalloc gives, that every address is a multiple of.
std::uint32_t common_alignment(const Product& p) {
  std::uintptr_t bits = 256;
  for (const void* const address :
       {p.a, p.b, p.c, static_cast<const void*>(p.d), p.bias, static_cast<const void*>(p.aux)})
    bits |= reinterpret_cast<std::uintptr_t>(address);
  return std::uint32_t{1} << std::countr_zero(bits);
}

// What an algorithm is chosen for.
struct Key {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b;
  DType type_a, type_b, output;
  Epilogue epilogue;
  std::uint32_t alignment;
  int processors;  // 0: all
  cublasComputeType_t compute;

  Key(const CudaDevice& device, const Product& p)
      : m(p.m),
        n(p.n),
        k(p.k),
        transpose_a(p.transpose_a),
        transpose_b(p.transpose_b),
        type_a(p.type_a),
        type_b(p.type_b),
        output(p.output),
        epilogue(p.epilogue),
        alignment(common_alignment(p)),
        processors(device.product_processors()),
        // Rounding to TF32 only happens to f32 operands, and only when asked for.
        compute(p.type_a == DType::f32 && device.products() == ProductPrecision::tf32
                    ? CUBLAS_COMPUTE_32F_FAST_TF32
                    : CUBLAS_COMPUTE_32F) {}
  friend auto operator<=>(const Key&, const Key&) = default;
};

// What changes from call to call.
void set_pointers(cublasLtMatmulDesc_t description, const Product& p) {
  if (p.bias != nullptr) set(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  if (p.aux != nullptr) set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.aux);
  if (p.scale_a != nullptr) set(description, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, p.scale_a);
  if (p.scale_b != nullptr) set(description, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, p.scale_b);
}

struct Plan {
  Description description;
  Matrix a, b, d;
  cublasLtMatmulAlgo_t algorithm{};
};

class Library {
 public:
  Library() { TRIREME_CUBLASLT(cublasLtCreate(&handle_)); }
  // Kept to the end of the process: the driver may be gone before static objects are.
  [[nodiscard]] static Library& get() {
    static auto* const instance = new Library;
    return *instance;
  }

  void run(CudaStream& stream, const Product& p) {
    const std::lock_guard lock(mutex_);  // descriptions carry the pointers of one call
    Plan& plan = plan_for(stream, p);
    cublasLtMatmulDesc_t description = plan.description.get();
    set_pointers(description, p);
    const float alpha = 1.0F;
    const void* const c = p.beta == 0.0F ? p.d : p.c;
    TRIREME_CUBLASLT(cublasLtMatmul(handle_, description, &alpha, p.a, plan.a.get(), p.b,
                                    plan.b.get(), &p.beta, c, plan.d.get(), p.d, plan.d.get(),
                                    &plan.algorithm, stream.workspace(),
                                    CudaStream::workspace_bytes, stream.handle()));
  }

 private:
  Plan& plan_for(CudaStream& stream, const Product& p) {
    const Key key(CudaDevice::of(stream.device()), p);
    auto [found, fresh] = plans_.try_emplace(key);
    if (fresh) {
      try {
        found->second = make_plan(p, key);
      } catch (...) {
        plans_.erase(found);
        throw;
      }
    }
    return found->second;
  }

  [[nodiscard]] Plan make_plan(const Product& p, const Key& key) const {
    Plan plan;
    cublasLtMatmulDesc_t description = nullptr;
    TRIREME_CUBLASLT(cublasLtMatmulDescCreate(&description, key.compute, CUDA_R_32F));
    plan.description.reset(description);
    const auto operation = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
    set(description, CUBLASLT_MATMUL_DESC_TRANSA, operation(p.transpose_a));
    set(description, CUBLASLT_MATMUL_DESC_TRANSB, operation(p.transpose_b));
    set(description, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(p.epilogue));
    if (p.aux != nullptr) set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.m);
    if (key.processors > 0) {
      set(description, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET,
          static_cast<std::int32_t>(key.processors));
    }
    // Sums that tensor cores keep with fewer bits, for forward products only: gradients are e5m2.
    if (p.type_a == DType::f8e4m3 && p.type_b == DType::f8e4m3)
      set(description, CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1});
    plan.a = p.transpose_a ? matrix(p.type_a, p.k, p.m) : matrix(p.type_a, p.m, p.k);
    plan.b = p.transpose_b ? matrix(p.type_b, p.n, p.k) : matrix(p.type_b, p.k, p.n);
    plan.d = matrix(p.output, p.m, p.n);
    // Algorithms are suggested for a description that is complete.
    set_pointers(description, p);
    plan.algorithm = choose(plan, p, key.alignment);
    return plan;
  }

  [[nodiscard]] cublasLtMatmulAlgo_t choose(const Plan& plan, const Product& p,
                                            std::uint32_t alignment) const {
    cublasLtMatmulPreference_t made = nullptr;
    TRIREME_CUBLASLT(cublasLtMatmulPreferenceCreate(&made));
    const Preference preference(made);
    set(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{CudaStream::workspace_bytes});
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      set(made, attribute, alignment);
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    TRIREME_CUBLASLT(cublasLtMatmulAlgoGetHeuristic(handle_, plan.description.get(), plan.a.get(),
                                                    plan.b.get(), plan.d.get(), plan.d.get(),
                                                    preference.get(), 1, &best, &found));
    if (found == 0) {
      library_failed("cublasLtMatmulAlgoGetHeuristic",
                     fmt::format("no algorithm for {} x {} x {}, {} to {}", p.m, p.n, p.k,
                                 name_of(p.type_a), name_of(p.output)));
    }
    return best.algo;
  }

  cublasLtHandle_t handle_ = nullptr;
  std::mutex mutex_;
  std::map<Key, Plan> plans_;
};

}  // namespace

void multiply(Stream& stream, const Product& product) {
  Library::get().run(CudaStream::of(stream), product);
}

bool multiplies_fp8(Stream& stream, const Product& p) {
  constexpr int oldest_with_fp8 = 89;
  constexpr std::int64_t alignment = 16;
  return CudaDevice::of(stream.device()).capability() >= oldest_with_fp8 &&
         (p.type_a == DType::f8e4m3 || p.type_b == DType::f8e4m3) && p.m % alignment == 0 &&
         p.k % alignment == 0 && common_alignment(p) >= alignment;
}

const void* epilogue_bias(Stream& stream, const Tensor& bias, DType output) {
  if (bias.empty()) return nullptr;
  if (output == DType::f32) return bias.data;
  const Tensor rounded{
      CudaStream::of(stream).scratch(static_cast<std::size_t>(bias.count()) * size_of(output)),
      output, bias.shape};
  ops::cast(stream, rounded, bias);
  return rounded.data;
}

std::string cublaslt_version() {
  const std::size_t version = cublasLtGetVersion();
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace trireme::ops::cuda
