// SPDX-License-Identifier: Apache-2.0
// Attention of some rows of sequences to keys and values that lie elsewhere: where ranks share
// sequences and gather keys (Llama 3, 2024). Causal. Rows of out, lse and dq have the bits of
// attention_forward and attention_backward of the whole sequence, but where these are cuDNN's.
#pragma once

#include "runtime/ops/attention/attention.h"

namespace trireme::ops {

// Rows [row, row + rows) of each sample are at positions from `position` on.
struct AttentionPart {
  std::int64_t row = 0, rows = 0, position = 0;
  std::int64_t key_head = 0;  // the first of those whose keys are given
};

// qkv(B, R, (heads + 2 kv_heads) * D), packed as in attention_forward, of which only queries are
// read; keys and values (B, T, n * D): key heads [key_head, key_head + n) at all T positions. Row i
// of the part attends to positions up to position + i < T. Writes out(B, R, heads * D) and
// lse(B, heads, R) in the part's rows, of the n * heads / kv_heads query heads of these keys, and
// nothing else. options.document_starts (B, R), of the rows of qkv, non-decreasing within a part:
// positions in the sequence. No document_bounds.
void attention_part_forward(Stream& stream, const Tensor& out, const Tensor& lse, const Tensor& qkv,
                            const Tensor& keys, const Tensor& values, const AttentionPart& part,
                            const AttentionOptions& options);

// What cuDNN's backward of a part takes beside its operands: attention_workspace_bytes for `batch`
// samples and `key_heads` key heads of `size`, with their query heads.
[[nodiscard]] std::size_t attention_part_workspace_bytes(
    DeviceType device, DType dtype, std::int64_t batch, const AttentionPart& part,
    std::int64_t key_heads, std::int64_t size, const AttentionOptions& options, bool deterministic);

// Writes the part's queries in dqkv, of the same heads and rows; adds to dkeys and dvalues
// (B, T, n * D) f32, one sum per element over the part's rows, whose order depends on the part's
// rows and position alone, and to dsinks as attention_backward. cuDNN rounds these sums to the
// dtype before they are added where query heads share keys.
void attention_part_backward(Stream& stream, const Tensor& dqkv, const Tensor& dkeys,
                             const Tensor& dvalues, const Tensor& dout, const Tensor& out,
                             const Tensor& lse, const Tensor& qkv, const Tensor& keys,
                             const Tensor& values, const AttentionPart& part,
                             const AttentionOptions& options, const Tensor& dsinks = {});

}  // namespace trireme::ops
