// SPDX-License-Identifier: Apache-2.0
// Private: stable sort of tokens by table row, on the device.
#pragma once

#include <cstdint>

#include "runtime/device/device.h"

namespace trireme::ops::cuda {

// Positions 0 .. count-1 of the tokens, ordered by table row, then by position. In the stream's
// scratch.
struct SortedTokens {
  const std::uint32_t* rows;  // ascending; `table_rows` for tokens outside the table
  const std::uint32_t* positions;
};

// The row of a token is id - first_row, if that is in [0, table_rows).
[[nodiscard]] SortedTokens sort_tokens(Stream& stream, const std::int32_t* tokens,
                                       std::int64_t count, std::int64_t first_row,
                                       std::int64_t table_rows);

}  // namespace trireme::ops::cuda
