// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding (Su et al., 2021), in place on a packed projection.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

struct RopeOptions {
  std::int64_t heads = 0;      // of queries
  std::int64_t key_heads = 0;  // of keys and of values; divides `heads`
  double base = 10000.0;       // element i of a head of size D turns by t * base^(-2i / D) at t
};

// qkv(B, T, (heads + 2 key_heads) * D), D even: the queries of all heads, then keys, then values.
// Queries and keys are rotated; element i < D / 2 forms a pair with i + D / 2 ("rotate_half", as
// Llama and Hugging Face order them). A compute dtype, computed in f32.
void rope_forward(Stream& stream, const Tensor& qkv, const RopeOptions& options);

// The gradient: dqkv is turned back.
void rope_backward(Stream& stream, const Tensor& dqkv, const RopeOptions& options);

}  // namespace trireme::ops
