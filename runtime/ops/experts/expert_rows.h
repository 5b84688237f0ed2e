// SPDX-License-Identifier: Apache-2.0
// Rows of tokens in the order of their experts, and back. H tokens with k slots each; R = H * k
// rows, C values a row.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

// places(H, k) i32: the row of slot (t, j) when all slots are ordered by expert, then token.
// offsets(E + 1) i32: the first row of each expert, and R. slots(H, k) i32 in [0, E).
void order_slots(Stream& stream, const Tensor& places, const Tensor& offsets, const Tensor& slots);

// rows(>= R, C): rows[places[t][j]] = x[t]; x(H, C), same dtype.
void spread_rows(Stream& stream, const Tensor& rows, const Tensor& x, const Tensor& places);
// y(H, C)[t] = residual[t] + sum over j in slot order of weights[t][j] * rows[places[t][j]], added
// in f32 (the slots' sum first) and rounded once. weights(H, k) f32, absent: 1. residual(H, C): may
// be absent, may alias y.
void collect_rows(Stream& stream, const Tensor& y, const Tensor& rows, const Tensor& places,
                  const Tensor& weights, const Tensor& residual);
// The same for one f32 value per slot: values(>= R)[places[t][j]] = x[t][j], and back.
void spread_values(Stream& stream, const Tensor& values, const Tensor& x, const Tensor& places);
void collect_values(Stream& stream, const Tensor& x, const Tensor& values, const Tensor& places);

// Which tokens a rank that owns experts receives: those in parts [from, to) of each micro-batch.
struct ReceivedRows {
  std::int64_t first = 0;  // of the owner's experts
  int tensor_ranks = 1;    // adjacent sources share a micro-batch, whose parts are theirs in order
  std::int64_t from = 0, to = 0;
};
// offsets(S * X + 1) i32: the first row of each source s and local expert x, rows being ordered by
// source, expert and token, and their end. counts(S, U, E) i32: the rows of each source, part of
// its tokens and expert.
void received_offsets(Stream& stream, const Tensor& offsets, const Tensor& counts,
                      const ReceivedRows& rows);

}  // namespace trireme::ops
