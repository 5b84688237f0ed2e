// SPDX-License-Identifier: Apache-2.0
// Fused causal self-attention over a packed projection, blocked with an online softmax (Dao et al.,
// FlashAttention, 2022): no T x T matrix is kept; backward recomputes probabilities from the
// log-sum-exp.
#pragma once

#include <string>

#include "runtime/device/device.h"

namespace trireme::ops {

// qkv(B, T, 3*H*D): queries of all heads, then keys, then values. out(B, T, H*D). lse(B, H, T) f32.
// scale is 1/sqrt(D). f32, bf16 or f16.
void attention_forward(Stream& stream, const Tensor& out, const Tensor& lse, const Tensor& qkv,
                       std::int64_t heads);

// dqkv(B, T, 3*H*D) is overwritten.
void attention_backward(Stream& stream, const Tensor& dqkv, const Tensor& dout, const Tensor& out,
                        const Tensor& lse, const Tensor& qkv, std::int64_t heads);

// What runs them on `device`: "cuDNN 9.19.0" where it has a plan for the shape (the log says for
// which), or "own kernels".
[[nodiscard]] std::string attention_backend(DeviceType device, DType compute);

}  // namespace trireme::ops
