// SPDX-License-Identifier: Apache-2.0
// Compiled with the flags of the rest of the build, so the compiler's macros show the instructions
// that it may emit.
#include "runtime/device/cpu/cpu_feature_bits.h"

namespace trireme {
namespace {

// An undefined macro stringifies to its own name, a defined one to "1".
#define TRIREME_TEXT_OF(x) #x
#define TRIREME_IS_ON(x) (TRIREME_TEXT_OF(x)[0] == '1')

constexpr CpuFeatures collect() {
  CpuFeatures set = 0;
#define TRIREME_COLLECT(name, macro, text) \
  if (TRIREME_IS_ON(macro)) set |= CpuFeatures{1} << static_cast<unsigned>(CpuFeatureBit::name);
  TRIREME_CPU_FEATURES(TRIREME_COLLECT)
#undef TRIREME_COLLECT
  return set;
}

}  // namespace

constinit const CpuFeatures compiled_features = collect();

}  // namespace trireme
