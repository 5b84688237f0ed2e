// SPDX-License-Identifier: Apache-2.0
// RMS normalisation of each query and key head in a packed projection, with one scale for all
// queries and one for all keys (Henry et al., query-key normalisation, 2020; as in Qwen3). A
// compute dtype; scales, statistics and their gradients are f32.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

struct HeadNormOptions {
  std::int64_t heads = 0;     // of queries
  std::int64_t kv_heads = 0;  // of keys and of values
  float epsilon = 1e-6F;
  float offset = 0;  // added to the scales; see row_norm.h
};

// y and x (B, T, (heads + 2 kv_heads) * D), disjoint: queries, keys, values; values are copied.
// Scales (D). rstd(B, T, heads + kv_heads) is kept for backward.
void head_norm_forward(Stream& stream, const Tensor& y, const Tensor& rstd, const Tensor& x,
                       const Tensor& query_gamma, const Tensor& key_gamma,
                       const HeadNormOptions& options);

// Replaces dqkv, the gradient of y, by that of x. d_query_gamma(D) and d_key_gamma(D) are
// accumulated in a fixed order.
void head_norm_backward(Stream& stream, const Tensor& dqkv, const Tensor& d_query_gamma,
                        const Tensor& d_key_gamma, const Tensor& x, const Tensor& rstd,
                        const Tensor& query_gamma, const Tensor& key_gamma,
                        const HeadNormOptions& options);

}  // namespace trireme::ops
