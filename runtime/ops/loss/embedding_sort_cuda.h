// SPDX-License-Identifier: Apache-2.0
// Private: tokens sorted by table row, stable, on the device.
#pragma once

#include <cstdint>

#include "runtime/device/device.h"

namespace trireme::ops::cuda {

// Positions 0 .. count-1 of the tokens, ordered by table row and, for equal rows, by position.
// Lies in the stream's scratch.
struct SortedTokens {
  const std::uint32_t* rows;  // ascending; `table_rows` for tokens outside of the table
  const std::uint32_t* positions;
};

// Row of a token: its id - first_row, where that is in [0, table_rows).
[[nodiscard]] SortedTokens sort_tokens(Stream& stream, const std::int32_t* tokens,
                                       std::int64_t count, std::int64_t first_row,
                                       std::int64_t table_rows);

}  // namespace trireme::ops::cuda
