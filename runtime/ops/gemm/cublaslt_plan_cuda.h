// SPDX-License-Identifier: Apache-2.0
// Private to cublaslt_cuda.cpp and gemm_measure_cuda.cpp: the library's description of one kind of
// matmul.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <optional>
#include <source_location>
#include <vector>

#include "runtime/ops/gemm/cublaslt_cuda.h"

namespace trireme::ops::cuda {

#define TRIREME_CUBLASLT(call) ::trireme::ops::cuda::check_cublaslt((call), #call)
void check_cublaslt(cublasStatus_t status, const char* call,
                    std::source_location where = std::source_location::current());

template <typename Handle, cublasStatus_t (*destroy)(Handle)>
struct Destroy {
  void operator()(Handle handle) const noexcept { static_cast<void>(destroy(handle)); }
};
template <typename Handle, cublasStatus_t (*destroy)(Handle)>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<Handle, destroy>>;

[[nodiscard]] GemmKey key_of(const Stream& stream, const Gemm& gemm);
// The largest power of two, up to 16 bytes (the widest load), that divides every address: a larger
// alignment depends on a run's layout, and an algorithm must not.
[[nodiscard]] std::uint32_t common_alignment(const Gemm& gemm);

class GemmPlan {
 public:
  // Descriptions hold one call's pointers; the library suggests algorithms for complete ones.
  GemmPlan(const GemmKey& key, const Gemm& gemm);

  // The library's first `most` algorithms, best first; empty if it lacks this matmul.
  [[nodiscard]] std::vector<cublasLtMatmulAlgo_t> suggest(int max_count) const;
  // The library's verdict on an algorithm from elsewhere: its status, or a too large workspace.
  [[nodiscard]] cublasStatus_t check(const cublasLtMatmulAlgo_t& algorithm) const;
  void run(CudaStream& stream, const Gemm& gemm, const cublasLtMatmulAlgo_t& algorithm);

 private:
  using Description = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
  using Matrix = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
  [[nodiscard]] static Matrix matrix(DType dtype, std::int64_t rows, std::int64_t columns);
  void set_pointers(const Gemm& gemm);

  std::uint32_t alignment_;
  bool has_epilogue_;
  Description description_;
  Matrix a_, b_, d_;
};

}  // namespace trireme::ops::cuda
