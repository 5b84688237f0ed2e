// SPDX-License-Identifier: Apache-2.0
// Context parallelism: several ranks share each sequence, cut in time. A sequence of T positions is
// computed in K fixed blocks, whatever the number of ranks: of its 2 K equal chunks block b has
// chunks b and 2 K - 1 - b, so that causal attention costs all blocks the same (the zigzag of
// Zhu, ring-flash-attention, 2024, and of Llama 3, 2024). Rank r of C runs blocks
// [r n, (r + 1) n), n = K / C, one after another. So for equal K the bits do not depend on C.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/config/choices.h"

namespace trireme {

// Adjacent rows of a block, and the position of the first of them in the sequence.
struct ContextRun {
  std::int64_t row = 0, rows = 0, position = 0;
  friend constexpr bool operator==(const ContextRun&, const ContextRun&) = default;
};

struct ContextSplit {
  int ranks = 1, rank = 0;
  int blocks = 1;              // a multiple of ranks
  std::int64_t positions = 0;  // T of a sequence that is cut, a multiple of 2 K
  ContextMode mode = ContextMode::automatic;

  [[nodiscard]] constexpr bool cuts() const { return blocks > 1; }
  [[nodiscard]] constexpr int local() const { return blocks / ranks; }
  [[nodiscard]] constexpr int first() const { return rank * local(); }
  // Rows of a block.
  [[nodiscard]] constexpr std::int64_t rows() const { return positions / blocks; }
  // The rows of block `block` of all K.
  [[nodiscard]] constexpr std::array<ContextRun, 2> runs(int block) const {
    const std::int64_t chunk = positions / (2 * blocks);
    return {{{0, chunk, block * chunk}, {chunk, chunk, (2 * blocks - 1 - block) * chunk}}};
  }
  friend constexpr bool operator==(const ContextSplit&, const ContextSplit&) = default;
};

}  // namespace trireme
