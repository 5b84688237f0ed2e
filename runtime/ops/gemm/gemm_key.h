// SPDX-License-Identifier: Apache-2.0
// Private to the CUDA back end: the key of a matmul algorithm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/dtype.h"
#include "runtime/ops/gemm/fp8.h"

namespace trireme::ops {

enum class Epilogue : std::uint8_t {
  none,
  bias,          // + bias per row of D
  gelu_bias,     // bias, kept in `aux`, then GELU
  dgelu,         // times GELU'(aux)
  bias_gradient  // plain D; the sums of B over k go to `bias_gradient`
};

// D(m, n) = A(m, k) B(k, n), column-major.
struct GemmKey {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  DType type_a = DType::f32, type_b = DType::f32, output = DType::f32;
  Epilogue epilogue = Epilogue::none;
  std::uint32_t alignment = 16;  // of every address, in bytes; 16 or less
  int processors = 0;            // multiprocessors to use; 0: all
  bool tf32 = false;             // f32 operands rounded to TF32
  Fp8Scaling scaling_a = Fp8Scaling::tensor, scaling_b = Fp8Scaling::tensor;  // of 8-bit operands

  friend auto operator<=>(const GemmKey&, const GemmKey&) = default;
};

// What stays in the matmul if separate kernels compute GELU, its derivative or bias gradients.
[[nodiscard]] Epilogue epilogue_apart(Epilogue epilogue);

[[nodiscard]] std::size_t plan_hash(const GemmKey& key);

// "768 8192 3072 TN bf16 bf16 bf16 bias 16 0 fp32", and back; nothing if the text is not a key.
// With scales per block the last word is theirs: "128x128*1x128".
[[nodiscard]] std::string to_text(const GemmKey& key);
[[nodiscard]] std::optional<GemmKey> parse_gemm_key(std::string_view text);

}  // namespace trireme::ops
