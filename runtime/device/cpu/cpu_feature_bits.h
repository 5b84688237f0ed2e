// SPDX-License-Identifier: Apache-2.0
// Private: bit i of a CpuFeatures set. Lists what compilers emit by themselves under -march=native.
#pragma once

#include "runtime/device/cpu/cpu_features.h"

// X(bit name, compiler macro, name known to __builtin_cpu_supports)
#define TRIREME_CPU_FEATURES(X)               \
  X(sse42, __SSE4_2__, "sse4.2")              \
  X(popcnt, __POPCNT__, "popcnt")             \
  X(avx, __AVX__, "avx")                      \
  X(avx2, __AVX2__, "avx2")                   \
  X(fma, __FMA__, "fma")                      \
  X(f16c, __F16C__, "f16c")                   \
  X(bmi, __BMI__, "bmi")                      \
  X(bmi2, __BMI2__, "bmi2")                   \
  X(avx512f, __AVX512F__, "avx512f")          \
  X(avx512bw, __AVX512BW__, "avx512bw")       \
  X(avx512dq, __AVX512DQ__, "avx512dq")       \
  X(avx512cd, __AVX512CD__, "avx512cd")       \
  X(avx512vl, __AVX512VL__, "avx512vl")       \
  X(avx512vbmi, __AVX512VBMI__, "avx512vbmi") \
  X(avx512vnni, __AVX512VNNI__, "avx512vnni") \
  X(avx512bf16, __AVX512BF16__, "avx512bf16") \
  X(avx512fp16, __AVX512FP16__, "avx512fp16") \
  X(avxvnni, __AVXVNNI__, "avxvnni")

namespace trireme {

enum class CpuFeatureBit : unsigned {
#define TRIREME_BIT(name, macro, text) name,
  TRIREME_CPU_FEATURES(TRIREME_BIT)
#undef TRIREME_BIT
};

// A constant, so that reading it runs no code of the file that is compiled for the target CPU.
extern const CpuFeatures compiled_features;

}  // namespace trireme
