// SPDX-License-Identifier: Apache-2.0
// Inverted dropout. The mask is a pure function of (seed, layer, step, sample id, element), so
// nothing is stored and every layout draws the same mask.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

// y(B, ...) = x * mask / (1 - p). Backward is the same call on gradients. y may alias x.
// sample_ids(B) i64. rng(2) u64 on the device: {seed, step}. layer: stable id of the dropout site.
void dropout(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& sample_ids,
             const Tensor& rng, std::uint64_t layer, float probability);

// The same for a run of rows: y and x hold rows [first_row, first_row + rows) of the (B *
// rows_per_sample, C) rows of a whole batch, with C their last extent, and get the mask of the call
// on the whole batch. sample_ids(B) are those of the whole batch.
void dropout_rows(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& sample_ids,
                  const Tensor& rng, std::uint64_t layer, float probability, std::int64_t first_row,
                  std::int64_t rows_per_sample);

}  // namespace trireme::ops
