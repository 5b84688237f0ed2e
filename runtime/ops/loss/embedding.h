// SPDX-License-Identifier: Apache-2.0
// Token plus learned position embedding.
#pragma once

#include "runtime/device/device.h"
#include "runtime/ops/common/row_runs.h"

namespace trireme::ops {

// y(B, T, C) = token_table(V, C)[tokens(B, T)] + position_table(P, C)[t], P >= T; the position
// table may be absent. tokens are i32 in [0, V): validated on input, not here. document_starts(B,
// T) i32, here and below: start of each row's document in its sequence; positions count from there.
// Absent: from the start of the sequence. Below, `runs` has the rows' positions t, below P.
void embedding_forward(Stream& stream, const Tensor& y, const Tensor& tokens,
                       const Tensor& token_table, const Tensor& position_table = {},
                       const Tensor& document_starts = {});

// Adds dy(B, T, C) to the f32 gradients (V, C) and (P, C), in a fixed order: the same bits in every
// run. Either may be absent.
void embedding_backward(Stream& stream, const Tensor& d_token_table, const Tensor& d_position_table,
                        const Tensor& dy, const Tensor& tokens, const Tensor& document_starts = {},
                        const RowRuns& runs = {});

// For a vocabulary split by rows: table(rows, C) holds the token rows [first_row, first_row +
// rows). y(B, T, C) is +0 for tokens of other blocks and 0 + row for its own: never -0, so that the
// sum over blocks is equal for every split.
void embedding_partial_forward(Stream& stream, const Tensor& y, const Tensor& tokens,
                               const Tensor& table, std::int64_t first_row);

// y(B, T, C) = x(B, T, C) + position_table(P, C)[t]: the second half of embedding_forward. y may
// alias x. With spans (B, 2) i32 row t is at position spans[b][0] + t; without documents and runs.
void add_positions(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& position_table,
                   const Tensor& document_starts = {}, const RowRuns& runs = {},
                   const Tensor& spans = {});

// Adds dy(B, T, C) to d_position_table(P, C) f32, with the bits of embedding_backward.
void add_positions_backward(Stream& stream, const Tensor& d_position_table, const Tensor& dy,
                            const RowRuns& runs = {});

// Adds dy(B, T, C) to d_table(rows, C) f32 for this block's tokens; each row has the bits of
// embedding_backward.
void embedding_partial_backward(Stream& stream, const Tensor& d_table, const Tensor& dy,
                                const Tensor& tokens, std::int64_t first_row);

}  // namespace trireme::ops
