// SPDX-License-Identifier: Apache-2.0
// Compiled for the baseline processor and free of inline functions shared with the rest of the
// program (the linker could pick their other copies), because it must run where the build does not.
#include "runtime/device/cpu/cpu_features.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "runtime/device/cpu/cpu_feature_bits.h"

namespace trireme {

CpuFeatures build_features() noexcept {
  return compiled_features;
}

CpuFeatures present_features() noexcept {
#if defined(__x86_64__)
  __builtin_cpu_init();
  CpuFeatures set = 0;
#define TRIREME_COLLECT(name, macro, text)                               \
  if (__builtin_cpu_supports(text)) {                                    \
    set |= CpuFeatures{1} << static_cast<unsigned>(CpuFeatureBit::name); \
  }
  TRIREME_CPU_FEATURES(TRIREME_COLLECT)
#undef TRIREME_COLLECT
  return set;
#else
  return compiled_features;  // no list for this processor family: assume it fits
#endif
}

bool cpu_has_bf16() noexcept {
#if defined(__x86_64__)
  // Below AVX-512, to which the user may limit it, oneDNN has no products of bf16.
  const char* limit = getenv("ONEDNN_MAX_CPU_ISA");
  if (limit == nullptr) limit = getenv("DNNL_MAX_CPU_ISA");
  if (limit != nullptr && (strncasecmp(limit, "SSE", 3) == 0 ||
                           strncasecmp(limit, "AVX2", 4) == 0 || strcasecmp(limit, "AVX") == 0))
    return false;
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512bf16") != 0 || __builtin_cpu_supports("amx-bf16") != 0;
#else
  return false;
#endif
}

bool missing_features(CpuFeatures built, CpuFeatures present, char* text,
                      unsigned capacity) noexcept {
  const CpuFeatures missing = built & ~present;
  text[0] = '\0';
#define TRIREME_APPEND(name, macro, label)                                               \
  if ((missing & (CpuFeatures{1} << static_cast<unsigned>(CpuFeatureBit::name))) != 0) { \
    const size_t used = strlen(text);                                                    \
    snprintf(text + used, capacity - used, used == 0 ? "%s" : " %s", label);             \
  }
  TRIREME_CPU_FEATURES(TRIREME_APPEND)
#undef TRIREME_APPEND
  return missing != 0;
}

void check_cpu_supports_build() noexcept {
  char names[256];
  if (!missing_features(build_features(), present_features(), names, sizeof names)) return;
  fprintf(stderr,
          "trireme: this build uses processor features that this machine lacks: %s; "
          "build here with -DTRIREME_CPU_ARCH=native, or for all machines with "
          "-DTRIREME_CPU_ARCH=x86-64-v3 (or x86-64-v2)\n",
          names);
  fflush(stderr);
  _exit(2);
}

namespace {
// Runs before static constructors, which are also compiled for the target processor.
[[gnu::constructor(101)]] void check_before_constructors() {
  check_cpu_supports_build();
}
}  // namespace

}  // namespace trireme
