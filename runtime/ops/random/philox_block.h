// SPDX-License-Identifier: Apache-2.0
// Philox for runs of elements. 64 consecutive counters give 256 words; word w of counter j belongs
// to element 64 w + j of its block of 256, so vector units and warps produce and consume adjacent
// elements without shuffles.
#pragma once

#include <cstdint>

#include "runtime/base/philox.h"

namespace trireme::ops {

inline constexpr std::int64_t philox_counters = 64;

struct PhiloxBlock {
  // words[w * 64 + j]: word w of counter j.
  alignas(64) std::uint32_t words[4 * philox_counters];
};

// Counters (hi, 64 * block + j) for j = 0..63; the same words as Philox::operator() gives.
inline void philox_block(PhiloxBlock& out, const Philox& key, std::uint64_t hi,
                         std::uint64_t block) {
  // A block never crosses 2^32 in the low word, because 64 divides it.
  const std::uint64_t lo = block * static_cast<std::uint64_t>(philox_counters);
#pragma omp simd
  for (std::int64_t j = 0; j < philox_counters; ++j) {
    std::uint32_t c0 = static_cast<std::uint32_t>(lo) + static_cast<std::uint32_t>(j);
    auto c1 = static_cast<std::uint32_t>(lo >> 32);
    auto c2 = static_cast<std::uint32_t>(hi);
    auto c3 = static_cast<std::uint32_t>(hi >> 32);
    std::uint32_t k0 = key.key0, k1 = key.key1;
#if !defined(__CUDACC__)  // nvcc does not know GCC unroll
#pragma GCC unroll 10
#endif
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c0;
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * c2;
      c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
      c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
      c1 = static_cast<std::uint32_t>(p1);
      c3 = static_cast<std::uint32_t>(p0);
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    out.words[j] = c0;
    out.words[1 * philox_counters + j] = c1;
    out.words[2 * philox_counters + j] = c2;
    out.words[3 * philox_counters + j] = c3;
  }
}

}  // namespace trireme::ops
