// SPDX-License-Identifier: Apache-2.0
// RMS normalisation of all queries of a row in a packed projection, and of all its keys, each with
// a scale per channel (OLMo 2: Walsh et al., 2025). One tensor block holds some of a row's heads,
// so both passes have two steps: sums of a block, which the caller adds over the blocks, and their
// use. A compute dtype; scales, sums and their gradients are f32.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

struct ProjectionNormOptions {
  std::int64_t heads = 0;     // of queries, in a block
  std::int64_t kv_heads = 0;  // of keys and of values, in a block
  std::int64_t blocks = 1;    // that share a row
  float epsilon = 1e-6F;
};

// Scales of queries (heads * D) and of keys (kv_heads * D).
struct ProjectionScales {
  Tensor queries, keys;
};

// squares(B * T, 2) of the queries and of the keys of x(B, T, (heads + 2 kv_heads) * D): queries,
// keys, values.
void projection_norm_squares(Stream& stream, const Tensor& squares, const Tensor& x,
                             const ProjectionNormOptions& options);

// y, shaped like x and disjoint from it, from the squares of all blocks; values are copied.
void projection_norm_forward(Stream& stream, const Tensor& y, const Tensor& x,
                             const Tensor& squares, const ProjectionScales& scales,
                             const ProjectionNormOptions& options);

// slopes(B * T, 2): the sums of (gradient * scale * normalised x) of queries and of keys; `dy` is
// the gradient of y.
void projection_norm_slopes(Stream& stream, const Tensor& slopes, const Tensor& dy, const Tensor& x,
                            const Tensor& squares, const ProjectionScales& scales,
                            const ProjectionNormOptions& options);

// Replaces dqkv, the gradient of y, by that of x, from the squares and slopes of all blocks.
// `gradients`, of the scales, are accumulated in a fixed order.
void projection_norm_backward(Stream& stream, const Tensor& dqkv, const ProjectionScales& gradients,
                              const Tensor& x, const Tensor& squares, const Tensor& slopes,
                              const ProjectionScales& scales, const ProjectionNormOptions& options);

}  // namespace trireme::ops
