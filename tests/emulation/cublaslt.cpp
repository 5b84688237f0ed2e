// SPDX-License-Identifier: Apache-2.0
#include "tests/emulation/cublaslt_support.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/base/float8.h"
#include "tests/emulation/machine.h"
#include "tests/emulation/order/accesses.h"

struct EmulatedPreference {
  std::uint64_t workspace = 0;
  std::uint32_t alignment = 256;
};

namespace {

using trireme::bf16;
using trireme::f8e4m3;
using trireme::f8e5m2;

// The products' only ways to memory.
void seen(const void* data, cudaDataType_t type, std::int64_t index, bool writes) {
  const std::int64_t bytes = trireme::emulated::is_float8(type) ? 1 : type == CUDA_R_32F ? 4 : 2;
  trireme::emulated::order::touch(static_cast<const char*>(data) + index * bytes,
                                  static_cast<std::size_t>(bytes), writes);
}
float read(const void* data, cudaDataType_t type, std::int64_t index) {
  seen(data, type, index, false);
  if (type == CUDA_R_16BF) return static_cast<float>(static_cast<const bf16*>(data)[index]);
  if (type == CUDA_R_16F) return static_cast<float>(static_cast<const _Float16*>(data)[index]);
  if (type == CUDA_R_8F_E4M3) return static_cast<float>(static_cast<const f8e4m3*>(data)[index]);
  if (type == CUDA_R_8F_E5M2) return static_cast<float>(static_cast<const f8e5m2*>(data)[index]);
  return static_cast<const float*>(data)[index];
}
void write(void* data, cudaDataType_t type, std::int64_t index, float value) {
  seen(data, type, index, true);
  if (type == CUDA_R_16BF) {
    static_cast<bf16*>(data)[index] = bf16(value);
  } else if (type == CUDA_R_16F) {
    static_cast<_Float16*>(data)[index] = static_cast<_Float16>(value);
  } else {
    static_cast<float*>(data)[index] = value;
  }
}

// The 10 bits of mantissa that TF32 keeps.
float round_tf32(float value) {
  std::uint32_t word = 0;
  std::memcpy(&word, &value, sizeof(word));
  word = (word + 0xfffU + ((word >> 13) & 1U)) & ~0x1fffU;
  std::memcpy(&value, &word, sizeof(word));
  return value;
}

float gelu(float x) {
  return 0.5F * x * (1.0F + std::tanh(0.79788456F * (x + 0.044715F * x * x * x)));
}
float gelu_slope(float x) {
  const float t = std::tanh(0.79788456F * (x + 0.044715F * x * x * x));
  return 0.5F * (1.0F + t) +
         0.5F * x * (1.0F - t * t) * 0.79788456F * (1.0F + 3.0F * 0.044715F * x * x);
}

// Algorithms sum in different orders and all but the last but one take extra time.
// An SM count target has its own order, as if parts of a sum were dealt out to the SMs.
struct Algorithm {
  std::int64_t number = 0, count = 1, processors = 0;

  explicit Algorithm(const cublasLtMatmulAlgo_t& words)
      : number(static_cast<std::int64_t>(words.data[1])),
        count(static_cast<std::int64_t>(words.data[2])),
        processors(static_cast<std::int64_t>(words.data[4])) {}
  [[nodiscard]] std::int64_t first_term(std::int64_t terms) const {
    return (terms * number / count + processors) % terms;
  }
  void take_time() const {
    if (count > 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(std::abs(number - (count - 2))));
  }
};

// The scale of an element: term `inner` of `terms` of row `outer` of A, or column of B, of `rows`.
// From the documentation's text on layouts of scaling factors.
float scale_of(const void* scales, std::int32_t mode, std::int64_t outer, std::int64_t inner,
               std::int64_t rows, std::int64_t terms) {
  const auto at = [&](std::int64_t index) { return read(scales, CUDA_R_32F, index); };
  if (scales == nullptr) return 1.0F;
  if (mode == CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F) return at(0);
  if (mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F) return at(outer + inner / 128 * rows);
  const std::int64_t blocks_128 = terms / 128 + (terms % 128 == 0 ? 0 : 1);
  if (mode == CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F)
    return at(inner / 128 + outer / 128 * (blocks_128 + 3 - (blocks_128 + 3) % 4));
  const std::int64_t block = inner / 32, inner_dim = 4 * blocks_128;
  const std::int64_t corner = (block - block % 4 + outer / 128 * inner_dim) * 128;
  const std::int64_t outer_in_tile = outer % 128;
  const std::int64_t offset = (outer_in_tile % 32) * 16 + (outer_in_tile / 32) * 4 + block % 4;
  const auto* const bytes = static_cast<const unsigned char*>(scales) + corner + offset;
  trireme::emulated::order::touch(bytes, 1, false);
  return *bytes == 255 ? std::nanf("") : std::ldexp(1.0F, *bytes - 127);
}

std::uint64_t algorithm_count() {
  const char* const text = std::getenv("TRIREME_EMULATED_ALGORITHMS");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

std::atomic<std::int64_t> planted_milliseconds{0};

// Whether TRIREME_EMULATED_SLOW_EPILOGUES names this one.
bool is_slow(cublasLtEpilogue_t epilogue) {
  const char* const names = std::getenv("TRIREME_EMULATED_SLOW_EPILOGUES");
  if (names == nullptr) return false;
  const std::string_view name = epilogue == CUBLASLT_EPILOGUE_BIAS            ? "bias"
                                : epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS ? "gelu_bias"
                                : epilogue == CUBLASLT_EPILOGUE_DGELU         ? "dgelu"
                                : epilogue == CUBLASLT_EPILOGUE_BGRADB        ? "bias_gradient"
                                                                              : "none";
  return ("," + std::string(names) + ",").find("," + std::string(name) + ",") != std::string::npos;
}

// One call with all its arguments by value: it runs later, on a stream.
struct Call {
  EmulatedMatmul how;
  EmulatedMatrix la, lb, lc, ld;
  float alpha, beta;
  const void *a, *b, *c;
  void* d;
  void* workspace;  // only its first bytes are used
  Algorithm algorithm;
  bool slow;

  [[nodiscard]] float operand(float value) const {
    return how.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? round_tf32(value) : value;
  }

  void operator()() const {
    trireme::emulated::count_matmul(how.processors);
    algorithm.take_time();
    if (slow) planted_milliseconds += 100;
    if (workspace != nullptr) write(workspace, CUDA_R_32F, 0, 0.0F);
    const std::int64_t m = ld.rows, n = ld.columns;
    const std::int64_t k = how.transpose_a == CUBLAS_OP_T ? la.rows : la.columns;
    const bool blocks = how.scale_mode_a != CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
    const auto scale = [&](const void* scales, std::int32_t mode, std::int64_t outer,
                           std::int64_t inner, std::int64_t rows) {
      return blocks ? scale_of(scales, mode, outer, inner, rows, k) : 1.0F;
    };
    std::vector<float> left(static_cast<std::size_t>(m * k));  // (k, m)
    for (std::int64_t p = 0; p < k; ++p) {
      for (std::int64_t i = 0; i < m; ++i) {
        const std::int64_t at =
            how.transpose_a == CUBLAS_OP_T ? i * la.leading + p : p * la.leading + i;
        left[static_cast<std::size_t>(p * m + i)] =
            operand(read(a, la.type, at)) * scale(how.scale_a, how.scale_mode_a, i, p, m);
      }
    }
    std::vector<float> column(static_cast<std::size_t>(m));
    for (std::int64_t j = 0; j < n; ++j) {
      std::fill(column.begin(), column.end(), 0.0F);
      for (std::int64_t term = 0; term < k; ++term) {
        const std::int64_t p = (algorithm.first_term(k) + term) % k;
        const float right = operand(read(b, lb.type, place_in_b(p, j))) *
                            scale(how.scale_b, how.scale_mode_b, j, p, n);
        const float* const from = left.data() + p * m;
        for (std::int64_t i = 0; i < m; ++i)
          column[static_cast<std::size_t>(i)] += from[i] * right;
      }
      finish(j, column);
    }
    if (how.epilogue == CUBLASLT_EPILOGUE_BGRADB) sum_b(k);
  }

  [[nodiscard]] std::int64_t place_in_b(std::int64_t p, std::int64_t j) const {
    return how.transpose_b == CUBLAS_OP_T ? p * lb.leading + j : j * lb.leading + p;
  }

  void sum_b(std::int64_t k) const {
    for (std::int64_t j = 0; j < ld.columns; ++j) {
      float sum = 0;
      for (std::int64_t p = 0; p < k; ++p)
        sum += read(b, lb.type, place_in_b(p, j));
      write(how.bias_gradient(), ld.type, j, sum);
    }
  }

  void finish(std::int64_t j, const std::vector<float>& column) const {
    const bool blocks = how.scale_mode_a != CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
    const float scale = blocks ? alpha
                               : alpha * scale_of(how.scale_a, how.scale_mode_a, 0, 0, 1, 1) *
                                     scale_of(how.scale_b, how.scale_mode_b, 0, 0, 1, 1);
    const bool has_bias =
        how.epilogue == CUBLASLT_EPILOGUE_BIAS || how.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    for (std::int64_t i = 0; i < ld.rows; ++i) {
      const std::int64_t at = j * ld.leading + i;
      float value = scale * column[static_cast<std::size_t>(i)];
      if (beta != 0.0F) value += beta * read(c, lc.type, j * lc.leading + i);
      if (has_bias) value += read(how.bias, ld.type, i);
      if (how.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
        write(how.aux, ld.type, j * how.aux_leading + i, value);
        value = gelu(value);
      } else if (how.epilogue == CUBLASLT_EPILOGUE_DGELU) {
        value *= gelu_slope(read(how.aux, ld.type, j * how.aux_leading + i));
      }
      write(d, ld.type, at, value);
    }
  }
};

bool aligned(const void* address, std::uint64_t alignment) {
  return reinterpret_cast<std::uintptr_t>(address) % alignment == 0;
}

template <typename T>
cublasStatus_t take(T& to, const void* value, std::size_t bytes) {
  if (bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

std::chrono::milliseconds trireme::emulated::planted_time() {
  return std::chrono::milliseconds(planted_milliseconds.load());
}

const char* cublasLtGetStatusName(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS         ? "CUBLAS_STATUS_SUCCESS"
         : status == CUBLAS_STATUS_INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE"
                                                 : "CUBLAS_STATUS_NOT_SUPPORTED";
}

std::size_t cublasLtGetVersion() {
  return 130100;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  static int library = 0;
  *handle = &library;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description,
                                        cublasComputeType_t compute, cudaDataType_t scale) {
  if (scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *description = new EmulatedMatmul{.compute = compute};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete description;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return take(description->transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return take(description->transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return take(description->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return take(description->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return take(description->aux, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return take(description->aux_leading, value, bytes);
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET:
      return take(description->processors, value, bytes);
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
      return take(description->scale_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
      return take(description->scale_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM:
      return take(description->fast_sums, value, bytes);
    case CUBLASLT_MATMUL_DESC_A_SCALE_MODE:
      return take(description->scale_mode_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_B_SCALE_MODE:
      return take(description->scale_mode_b, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t leading_dimension) {
  *layout = new EmulatedMatrix{type, static_cast<std::int64_t>(rows),
                               static_cast<std::int64_t>(columns), leading_dimension};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new EmulatedPreference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  return attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
             ? take(preference->workspace, value, bytes)
             : take(preference->alignment, value, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t /*handle*/,
                                              cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* returned) {
  *returned = 0;
  if (requested < 1) return CUBLAS_STATUS_INVALID_VALUE;
  const cublasStatus_t supported = trireme::emulated::support(*description, *a, *b, *c, *d);
  if (supported != CUBLAS_STATUS_SUCCESS) return supported;
  const std::uint64_t count = algorithm_count();
  *returned = static_cast<int>(std::min(count, static_cast<std::uint64_t>(requested)));
  for (int i = 0; i < *returned; ++i) {
    results[i] = {};
    results[i].algo = {{preference->alignment, static_cast<std::uint64_t>(i), count,
                        trireme::emulated::epilogue_alignment(*description),
                        static_cast<std::uint64_t>(description->processors)}};
    results[i].workspaceSize = preference->workspace;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t /*handle*/,
                                       cublasLtMatmulDesc_t description, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                       cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  *result = {};
  const auto [alignment, number, count, epilogue, processors, rest1, rest2, rest3] =
      algorithm->data;
  const bool known = std::has_single_bit(alignment) && number < count && count <= 64 &&
                     epilogue <= 16 && processors < 4096 && (rest1 | rest2 | rest3) == 0;
  return known ? trireme::emulated::support(*description, *a, *b, *c, *d)
               : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t description,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  for (const void* const address : {a, b, c, static_cast<const void*>(d)}) {
    if (!aligned(address, algorithm->data[0])) return CUBLAS_STATUS_INVALID_VALUE;
  }
  using namespace trireme::emulated;
  const cublasStatus_t supported =
      support(*description, *a_layout, *b_layout, *c_layout, *d_layout);
  if (supported != CUBLAS_STATUS_SUCCESS) return supported;
  if (is_float8(a_layout->type)) {
    for (const void* const address : {a, b, c, static_cast<const void*>(d)}) {
      if (!aligned(address, 16)) return CUBLAS_STATUS_INVALID_VALUE;
    }
  }
  // The heuristic assumed that later pointers have the same alignment.
  if (epilogue_alignment(*description) < algorithm->data[3]) return CUBLAS_STATUS_INVALID_VALUE;
  if (workspace_bytes > 0 && !aligned(workspace, 256)) return CUBLAS_STATUS_INVALID_VALUE;
  const std::size_t kernel =
      std::hash<std::string_view>{}({reinterpret_cast<const char*>(algorithm), sizeof *algorithm});
  const auto shape = static_cast<std::size_t>(d_layout->rows * 1000003 + d_layout->columns);
  const auto how =
      static_cast<std::size_t>(description->epilogue * 64 + a_layout->type +
                               description->transpose_a * 2 + description->transpose_b);
  if (before_launch(stream, kernel ^ (shape * 31 + how)) != cudaSuccess)
    return CUBLAS_STATUS_INVALID_VALUE;
  enqueue(stream, Call{*description, *a_layout, *b_layout, *c_layout, *d_layout,
                       *static_cast<const float*>(alpha), *static_cast<const float*>(beta), a, b, c,
                       d, workspace_bytes > 0 ? workspace : nullptr, Algorithm(*algorithm),
                       is_slow(description->epilogue)});
  return CUBLAS_STATUS_SUCCESS;
}
