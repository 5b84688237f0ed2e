// SPDX-License-Identifier: Apache-2.0
// Positions of the rows of samples that hold two runs of a sequence (nn/context_split.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/base/host_device.h"

namespace trireme::ops {

// Rows [0, rows) are at positions from `first` on, later ones from `second` on; no two at the same.
// Without rows, row t is at position t.
struct RowRuns {
  std::int64_t rows = 0, first = 0, second = 0;

  [[nodiscard]] constexpr bool empty() const { return rows == 0; }
  [[nodiscard]] TRIREME_HOST_DEVICE constexpr std::int64_t position(std::int64_t row) const {
    if (rows == 0) return row;
    return row < rows ? first + row : second + row - rows;
  }
  // All positions of `length` rows are below it.
  [[nodiscard]] constexpr std::int64_t end(std::int64_t length) const {
    if (rows == 0 || length == 0) return length;
    return std::max(position(std::min(rows, length) - 1), position(length - 1)) + 1;
  }
};

}  // namespace trireme::ops
