// SPDX-License-Identifier: Apache-2.0
// A keyed bijection of [0, size) without a table.
#pragma once

#include <cstdint>

namespace trireme {

// A Feistel network over the smallest power of two that holds `size`, with cycle walking: outputs
// outside [0, size) are encrypted again until they fall inside (Black and Rogaway, "Ciphers with
// arbitrary finite domains", CT-RSA 2002). The round function is Philox keyed by (seed, shuffle) at
// counter (epoch, round, half), so each position is computed alone, in constant expected time
// (under two walks).
class Permutation {
 public:
  Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch);
  // `index` must be below size.
  [[nodiscard]] std::uint64_t operator()(std::uint64_t index) const;

 private:
  std::uint64_t size_;
  std::uint64_t seed_;
  std::uint64_t epoch_;
  int low_bits_;
  int high_bits_;
};

}  // namespace trireme
