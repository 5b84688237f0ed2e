// SPDX-License-Identifier: Apache-2.0
// Fused self-attention over a packed projection, blocked with an online softmax (Dao et al.,
// FlashAttention, 2022): keeps no T x T matrix; backward recomputes probabilities from the
// log-sum-exp. Several query heads may share a key and value head (Ainslie et al., GQA, 2023).
// Sinks (Xiao et al., 2023; learned as in gpt-oss, 2025) let a head attend to nothing.
#pragma once

#include <string>

#include "runtime/device/device.h"

namespace trireme::ops {

struct AttentionOptions {
  std::int64_t heads = 0;     // of queries
  std::int64_t kv_heads = 0;  // of keys and of values; query head h reads h / (heads / kv_heads)
  bool causal = true;         // a query attends to its own position and earlier ones, else to all
  std::int64_t window = 0;    // only to the last N of these (Beltagy et al., 2020); 0: all; causal
  double soft_cap = 0;        // scores s become soft_cap * tanh(s / soft_cap); 0: they stay
  double scale = 0;           // of the scores; 0: 1 / sqrt(D)
  // (B, T) i32: start of each position's document in its sequence, non-decreasing and not after the
  // position. A query only attends to its own document. Absent: a sequence is one document.
  Tensor document_starts{};
  // Backward's scratch memory, of attention_workspace_bytes(). Absent or too small: the stream's.
  Tensor workspace{};
  // (N + 1) i32, beside document_starts: the same documents, with all sequences as one: where each
  // begins and the last ends; those that are left over begin and end at B * T. For cuDNN, causal.
  // With them the contents of lse are known to attention_backward alone, which needs them too.
  // Absent: on a GPU our own kernels.
  Tensor document_bounds{};
  // (heads) f32: of each query head, the score of a further key, whose value is zero, that all its
  // queries attend to; lse includes it. Neither scaled nor capped. Absent: no such keys.
  Tensor sinks{};
};

// What cuDNN's backward takes for qkv(B, T, ...) of heads of `size`, from the shape alone, on this
// host's first GPU, or on Hopper if there is none. `deterministic`: the stream's policy is
// reproducible. `documents`: about how many the sequences hold together, if these are kept apart. 0
// where our own kernels run.
[[nodiscard]] std::size_t attention_workspace_bytes(DeviceType device, DType dtype,
                                                    std::int64_t batch, std::int64_t length,
                                                    std::int64_t size,
                                                    const AttentionOptions& options,
                                                    bool deterministic, std::int64_t documents = 0);

// qkv(B, T, (heads + 2 kv_heads) * D): all heads' queries, then keys, then values. out(B, T, heads
// * D). lse(B, heads, T) f32. f32, bf16 or f16.
void attention_forward(Stream& stream, const Tensor& out, const Tensor& lse, const Tensor& qkv,
                       const AttentionOptions& options);

// dqkv, shaped like qkv, is overwritten. To dsinks (heads) f32, of the options' sinks, one sum over
// all positions is added, in an order that depends on B and T alone; absent: it is not computed.
void attention_backward(Stream& stream, const Tensor& dqkv, const Tensor& dout, const Tensor& out,
                        const Tensor& lse, const Tensor& qkv, const AttentionOptions& options,
                        const Tensor& dsinks = {});

// Incremental attention: new rows qkv(B, R, (heads + 2 kv_heads) * D), packed as above, attend to
// caches of earlier keys and values (B, capacity, kv_heads * D). In sample b the first spans[b][1]
// rows are real, at positions from spans[b][0] on, all below the capacity; their keys and values
// are first added to the caches, so they also attend to themselves. out(B, R, heads * D) is zero in
// other rows. On the CPU a row has the bits of attention_forward over the whole text. Causal only.
// spans (B, 2) i32.
void attention_cached_forward(Stream& stream, const Tensor& out, const Tensor& keys,
                              const Tensor& values, const Tensor& qkv, const Tensor& spans,
                              const AttentionOptions& options);

// Only adds keys and values to the caches, as above: those of rows that another rank attends for.
void attention_append(Stream& stream, const Tensor& keys, const Tensor& values, const Tensor& qkv,
                      const Tensor& spans, const AttentionOptions& options);

// The implementation on `device`: "cuDNN 9.28.1" if it has a plan for the shape (the log says for
// which), or "own kernels".
[[nodiscard]] std::string attention_backend(DeviceType device, DType compute);

}  // namespace trireme::ops
