// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/gemm/cublaslt_cuda.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>

#include "runtime/base/log.h"
#include "runtime/device/cuda/kernel_names.h"
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/float_types.h"
#include "runtime/ops/common/library_version.h"
#include "runtime/ops/common/plan_table.h"
#include "runtime/ops/elementwise/elementwise.h"
#include "runtime/ops/gemm/cublaslt_plan_cuda.h"
#include "runtime/ops/gemm/gemm_tuning.h"

namespace trireme::ops::cuda {
namespace {

class Library {
 public:
  // Never destroyed: the driver may unload before static objects are destroyed.
  [[nodiscard]] static Library& get() {
    static auto* const instance = new Library;
    return *instance;
  }

  void run(CudaStream& stream, const Gemm& p) {
    const GemmKey key = key_of(stream, p);
    Entry& entry = entry_for(key, p);
    if (!entry.algorithm) {
      library_failed("cublasLtMatmulAlgoGetHeuristic",
                     fmt::format("no algorithm for the matmul {}", ops::to_text(key)));
    }
    entry.plan.run(stream, p, *entry.algorithm);
  }

  [[nodiscard]] bool has(CudaStream& stream, const Gemm& p) {
    return entry_for(key_of(stream, p), p).algorithm.has_value();
  }

  void use(GemmChoices choices, std::string file) {
    const std::lock_guard lock(mutex_);
    choices_ = std::move(choices);
    file_ = std::move(file);
    algorithms_.clear();
    generation_.fetch_add(1, std::memory_order_release);
  }

  [[nodiscard]] std::vector<GemmKey> unmeasured() {
    const std::lock_guard lock(mutex_);
    std::vector<GemmKey> keys;
    for (const auto& [key, algorithm] : algorithms_) {
      if (algorithm && !choices_.algorithms.contains(key)) keys.push_back(key);
    }
    return keys;
  }

 private:
  // None: the library has no such matmul, or separate kernels are faster.
  using Algorithm = std::optional<cublasLtMatmulAlgo_t>;

  // Plans hold one call's pointers, so every thread has its own.
  struct Entry {
    GemmPlan plan;
    Algorithm algorithm;
  };
  struct ThreadPlans {
    PlanTable<GemmKey, Entry> table;
    unsigned generation = 0;
  };

  // Locks and allocates only for a key that is new to this thread.
  Entry& entry_for(const GemmKey& key, const Gemm& p) {
    static thread_local ThreadPlans mine;
    if (const unsigned now = generation_.load(std::memory_order_acquire); mine.generation != now) {
      mine.table.clear();
      mine.generation = now;
    }
    if (Entry* const found = mine.table.find(key)) return *found;
    auto entry = std::make_unique<Entry>(GemmPlan(key, p), std::nullopt);
    entry->algorithm = algorithm_for(key, entry->plan);
    return mine.table.insert(key, std::move(entry));
  }

  // Shared by all threads.
  [[nodiscard]] Algorithm algorithm_for(const GemmKey& key, const GemmPlan& plan) {
    const std::lock_guard lock(mutex_);
    if (const auto found = algorithms_.find(key); found != algorithms_.end()) return found->second;
    Algorithm algorithm;
    const auto chosen = choices_.algorithms.find(key);
    const bool is_chosen = chosen != choices_.algorithms.end();
    if (is_chosen) {
      if (chosen->second.fused) algorithm = given(plan, key, chosen->second);
    } else if (const auto suggested = plan.suggest(1); !suggested.empty()) {
      algorithm = suggested.front();
    }
    if (algorithm) {
      log::get("ops").debug("cuBLASLt {} runs the matmul {}", cublaslt_version(),
                            ops::to_text(key));
    } else if (is_chosen) {
      log::get("ops").debug("{}: separate kernels for the matmul {}", file_, ops::to_text(key));
    } else if (key.epilogue == Epilogue::none) {
      log::get("ops").warn(
          "cuBLASLt {} has no algorithm for the matmul {}: a kernel of our own runs it, many times "
          "slower",
          cublaslt_version(), ops::to_text(key));
    } else {
      log::get("ops").info("cuBLASLt has no epilogue for the matmul {}: separate kernels",
                           ops::to_text(key));
    }
    return algorithms_.emplace(key, algorithm).first->second;
  }

  [[nodiscard]] cublasLtMatmulAlgo_t given(const GemmPlan& plan, const GemmKey& key,
                                           const GemmChoice& choice) const {
    cublasLtMatmulAlgo_t algorithm{};
    std::ranges::copy(choice.algorithm, algorithm.data);
    const cublasStatus_t status = plan.check(algorithm);
    if (status != CUBLAS_STATUS_SUCCESS) {
      fail(ExitCode::config,
           "device.autotune: {}: cuBLASLt rejects the algorithm for the matmul {} ({}); remove "
           "that line",
           file_, ops::to_text(key), cublasLtGetStatusName(status));
    }
    return algorithm;
  }

  std::mutex mutex_;
  std::map<GemmKey, Algorithm> algorithms_;
  GemmChoices choices_;
  std::string file_;
  std::atomic<unsigned> generation_{0};  // of the choices
};

}  // namespace

// The name in work logs.
static const char* call_of(Epilogue epilogue) {
  constexpr std::array names{"cublasLtMatmul", "cublasLtMatmul + bias", "cublasLtMatmul + GELU",
                             "cublasLtMatmul * GELU'", "cublasLtMatmul + bias gradient"};
  return names[static_cast<std::size_t>(epilogue)];
}

void multiply(Stream& stream, const Gemm& gemm) {
  if (!trireme::cuda::asked_to_call(stream, call_of(gemm.epilogue))) return;
  Library::get().run(CudaStream::of(stream), gemm);
}

bool fuses(Stream& stream, const Gemm& gemm) {
  constexpr std::int64_t aux_columns = 8, aux_alignment = 16;
  if (!stream.policy().fused_epilogues) return false;
  if (gemm.aux != nullptr && (gemm.m % aux_columns != 0 || common_alignment(gemm) < aux_alignment))
    return false;
  // A described GPU is assumed to support all epilogues.
  if (stream.device().execution() != Execution::run) return true;
  return Library::get().has(CudaStream::of(stream), gemm);
}

bool multiplies_fp8(Stream& stream, const Gemm& p) {
  constexpr int oldest_with_fp8 = 89;
  constexpr std::int64_t alignment = 16, rows_of_1x128 = 4;
  if (CudaDevice::of(stream.device()).capability() < oldest_with_fp8 ||
      (p.type_a != DType::f8e4m3 && p.type_b != DType::f8e4m3) || p.m % alignment != 0 ||
      p.k % alignment != 0 || common_alignment(p) < alignment)
    return false;
  if (p.scaling_a == Fp8Scaling::tensor) return true;
  if (p.scaling_a != Fp8Scaling::row_32 && p.n % rows_of_1x128 != 0) return false;
  // As in fuses().
  return stream.device().execution() != Execution::run ||
         Library::get().has(CudaStream::of(stream), p);
}

const void* epilogue_bias(Stream& stream, const Tensor& bias, DType output) {
  if (bias.empty()) return nullptr;
  if (output == bias.dtype) return bias.data;
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

GemmChoices no_gemm_choices(Device& device) {
  return {.gpu = CudaDevice::of(device).name(),
          .library = fmt::format("cuBLASLt {}", cublaslt_version()),
          .algorithms = {}};
}

void use_gemm_choices(GemmChoices choices, std::string file) {
  Library::get().use(std::move(choices), std::move(file));
}

std::vector<GemmKey> unmeasured_gemms() {
  return Library::get().unmeasured();
}

TRIREME_CUDA_PROVIDES(ops, cublaslt_version, no_gemm_choices, use_gemm_choices, unmeasured_gemms);

}  // namespace trireme::ops::cuda
