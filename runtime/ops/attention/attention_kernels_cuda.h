// SPDX-License-Identifier: Apache-2.0
// Private: our own CUDA kernels of attention: all of it where cuDNN has no plan, and what cuDNN's
// plans of documents need. Operands as in attention.h, already checked.
#pragma once

#include "runtime/ops/attention/attention_sizes.h"

namespace trireme::ops::cuda {

void simt_attention_forward(Stream& stream, const Tensor& out, const Tensor& lse, const Tensor& qkv,
                            const AttentionOptions& options);
void simt_attention_backward(Stream& stream, const Tensor& dqkv, const Tensor& dout,
                             const Tensor& out, const Tensor& lse, const Tensor& qkv,
                             const AttentionOptions& options, const Tensor& dsinks);

void simt_attention_part_forward(Stream& stream, const Tensor& out, const Tensor& lse,
                                 const Tensor& qkv, const Tensor& keys, const Tensor& values,
                                 const AttentionPart& part, const AttentionOptions& options);
void simt_attention_part_backward(Stream& stream, const Tensor& dqkv, const Tensor& dkeys,
                                  const Tensor& dvalues, const Tensor& dout, const Tensor& out,
                                  const Tensor& lse, const Tensor& qkv, const Tensor& keys,
                                  const Tensor& values, const AttentionPart& part,
                                  const AttentionOptions& options, const Tensor& dsinks);

// The work beside cuDNN's plans of parts, whose lse is `dense` (B, n heads, queries): copied to or
// from the part's places in lse; and dkeys += dk, dvalues += dv, which are dense, of `dtype` and of
// the keys that are reached.
void copy_part_lse(Stream& stream, float* dense, const Tensor& lse, const AttentionSizes& sizes,
                   bool to_dense);
void add_part_keys(Stream& stream, const Tensor& dkeys, const Tensor& dvalues, const void* dk,
                   const void* dv, DType dtype, const AttentionSizes& sizes);

// The work of sinks beside cuDNN's plans. Forward: out and lse of attention without them become
// those with. Backward needs no more than that lse, but for their gradients: dsinks is added to.
// by_position: lse is (B * T, heads), as plans of documents have it.
void join_sinks(Stream& stream, const Tensor& out, const Tensor& lse, const AttentionSizes& sizes,
                bool by_position);
void add_sink_gradients(Stream& stream, const Tensor& dsinks, const Tensor& dout, const Tensor& out,
                        const Tensor& lse, const AttentionSizes& sizes, bool by_position);

// Of documents by their bounds. `memory`: 8-byte aligned, of document_places_bytes().
[[nodiscard]] DocumentPlaces document_places(Stream& stream, const Tensor& bounds,
                                             const AttentionSizes& sizes, std::byte* memory);
[[nodiscard]] constexpr std::size_t document_places_bytes(std::int64_t documents) {
  return static_cast<std::size_t>(documents + 1) *
         (3 * sizeof(std::int64_t) + sizeof(std::int32_t));
}

}  // namespace trireme::ops::cuda
