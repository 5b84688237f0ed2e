// SPDX-License-Identifier: Apache-2.0
// RMS normalisation of queries and keys in a packed projection (B, T, (heads + 2 kv_heads) * D):
// queries, keys, values. A run of channels has one statistic:
//   each head, with one scale (D) for all queries and one for all keys (Henry et al., query-key
//   normalisation, 2020; as in Qwen3); or with `whole`
//   all queries of a row, and all its keys, with a scale per channel (OLMo 2: Walsh et al., 2025).
// If tensor blocks share a run, the caller adds their sums between the two steps of a pass.
// A compute dtype; scales, sums, statistics and their gradients are f32.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

struct PackedNormOptions {
  std::int64_t heads = 0;     // of queries, in a block
  std::int64_t kv_heads = 0;  // of keys and of values, in a block
  bool whole = false;
  std::int64_t blocks = 1;  // that share a run
  float epsilon = 1e-6F;
  float offset = 0;  // added to the scales; see row_norm.h

  // Of a row.
  [[nodiscard]] std::int64_t runs() const { return whole ? 2 : heads + kv_heads; }
};

// Of queries (D, or whole: heads * D) and of keys (D, or kv_heads * D).
struct PackedScales {
  Tensor queries, keys;
};

// sums(B * T, runs) of a block: the squares of x, or with dy, the gradient of y, the slopes
// (dy * scale * normalised x).
void packed_norm_sums(Stream& stream, const Tensor& sums, const Tensor& x,
                      const PackedNormOptions& options, const Tensor& dy = {},
                      const Tensor& rstd = {}, const PackedScales& scales = {});

// y, shaped like x and disjoint from it; values are copied. rstd(B * T, runs) is kept for backward.
// `squares` of all blocks; absent: those of x.
void packed_norm_forward(Stream& stream, const Tensor& y, const Tensor& rstd, const Tensor& x,
                         const PackedScales& scales, const PackedNormOptions& options,
                         const Tensor& squares = {});

// Replaces dqkv, the gradient of y, by that of x. `gradients`, of the scales, are accumulated in a
// fixed order. `slopes` of all blocks; absent: those of x.
void packed_norm_backward(Stream& stream, const Tensor& dqkv, const PackedScales& gradients,
                          const Tensor& x, const Tensor& rstd, const PackedScales& scales,
                          const PackedNormOptions& options, const Tensor& slopes = {});

}  // namespace trireme::ops
