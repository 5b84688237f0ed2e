// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC'11). A draw is a pure function of (key, counter), so it depends on what is drawn
// (seed, purpose, parameter or sample id, step) and never on rank, layout or thread count.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/base/host_device.h"

namespace trireme {

// The purpose of a random stream; part of the key, so purposes never share numbers.
enum class RandomPurpose : std::uint32_t {
  init = 1,
  dropout = 2,
  shuffle = 3,
  augment = 4,
  sample = 5,
  test = 6,
  crop = 7,
  mix = 8,
  mask = 9
};

struct Philox {
  std::uint32_t key0 = 0;
  std::uint32_t key1 = 0;

  TRIREME_HOST_DEVICE static constexpr Philox keyed(std::uint64_t seed, RandomPurpose purpose) {
    // The purpose is spread over the upper key word; seed differences reach both words.
    return {static_cast<std::uint32_t>(seed),
            static_cast<std::uint32_t>(seed >> 32) ^
                (static_cast<std::uint32_t>(purpose) * 0x9E3779B9U)};
  }

  // Four independent 32-bit words for the 128-bit counter (hi, lo).
  TRIREME_HOST_DEVICE constexpr std::array<std::uint32_t, 4> operator()(std::uint64_t hi,
                                                                        std::uint64_t lo) const {
    std::uint32_t c0 = static_cast<std::uint32_t>(lo), c1 = static_cast<std::uint32_t>(lo >> 32);
    std::uint32_t c2 = static_cast<std::uint32_t>(hi), c3 = static_cast<std::uint32_t>(hi >> 32);
    std::uint32_t k0 = key0, k1 = key1;
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t p0 = 0xD2511F53ULL * c0;
      const std::uint64_t p1 = 0xCD9E8D57ULL * c2;
      const auto n0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
      const auto n2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
      c1 = static_cast<std::uint32_t>(p1);
      c3 = static_cast<std::uint32_t>(p0);
      c0 = n0;
      c2 = n2;
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    return {c0, c1, c2, c3};
  }

  // [0, 1) with 24 random bits.
  TRIREME_HOST_DEVICE static constexpr float uniform(std::uint32_t word) {
    return static_cast<float>(word >> 8) * 0x1p-24F;
  }
};

// FNV-1a: a stable 64-bit id for a name (parameter, layer), for use as a Philox counter.
[[nodiscard]] constexpr std::uint64_t stable_id(const char* text, std::size_t size) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (std::size_t i = 0; i < size; ++i) {
    hash = (hash ^ static_cast<unsigned char>(text[i])) * 0x100000001b3ULL;
  }
  return hash;
}

}  // namespace trireme
