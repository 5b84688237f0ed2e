// SPDX-License-Identifier: Apache-2.0
// The fastest measured matmul algorithms on a GPU, and their file. See Note [Tuned GEMMs] in
// gemm_tuning.h.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>

#include "runtime/ops/gemm/gemm_key.h"

namespace trireme::ops {

struct GemmChoice {
  std::array<std::uint64_t, 8> algorithm{};  // opaque; valid for this library version only
  double microseconds = 0;                   // measured when it was chosen
  // Of the matmul without its epilogue and the kernel for that; 0: not measured.
  double apart_microseconds = 0;
  bool fused = true;  // or apart
};

struct GemmChoices {
  std::string gpu;      // "NVIDIA H200"
  std::string library;  // "cuBLASLt 13.1.0"
  std::map<GemmKey, GemmChoice> algorithms;

  // "24 matmuls, 3 of 6 epilogues fused".
  [[nodiscard]] std::string summary() const;
  // One line per product, each with its checksum.
  [[nodiscard]] std::string to_text() const;
  // Reads versions 1, without measured epilogues, and 2. Raises ExitCode::config naming `file`, the
  // line and the problem: wrong format, modified, or from another GPU or version than `gpu` and
  // `library`.
  [[nodiscard]] static GemmChoices parse(std::string_view text, std::string_view file,
                                         const std::string& gpu, const std::string& library);
};

}  // namespace trireme::ops
