// SPDX-License-Identifier: Apache-2.0
// CPU features that this build uses and that this processor has, as bit sets.
#pragma once

#include <cstdint>

namespace trireme {

using CpuFeatures = std::uint64_t;

// Ends the process with exit code 2 and a message if the build uses instructions that this
// processor lacks; otherwise the process would die of SIGILL. `main` calls it first; linking it
// also runs it before static constructors. Compiled for the oldest processor of the family.
void check_cpu_supports_build() noexcept;

// Native bf16 matrix arithmetic: AVX512_BF16 or AMX_BF16.
[[nodiscard]] bool cpu_has_bf16() noexcept;

// For tests.
[[nodiscard]] CpuFeatures build_features() noexcept;
[[nodiscard]] CpuFeatures present_features() noexcept;
// Writes the names of the features in `built` but not in `present`, separated by spaces, into
// `text` (always terminated). Returns false when there is none.
[[nodiscard]] bool missing_features(CpuFeatures built, CpuFeatures present, char* text,
                                    unsigned capacity) noexcept;

}  // namespace trireme
