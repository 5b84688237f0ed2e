// SPDX-License-Identifier: Apache-2.0
// How tensor parallelism splits parameters. Layers compute in `blocks` fixed blocks, whatever the
// number of ranks; a rank owns a run of adjacent blocks. So for equal `blocks` the arithmetic and
// the bits do not depend on the number of ranks.
#pragma once

namespace trireme {

struct TensorSplit {
  int ranks = 1;
  int rank = 0;
  int blocks = 1;  // a multiple of ranks

  [[nodiscard]] constexpr int local() const { return blocks / ranks; }
  [[nodiscard]] constexpr int first() const { return rank * local(); }
  [[nodiscard]] constexpr bool blocked() const { return blocks > 1; }
  friend constexpr bool operator==(const TensorSplit&, const TensorSplit&) = default;
};

}  // namespace trireme
