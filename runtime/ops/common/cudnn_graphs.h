// SPDX-License-Identifier: Apache-2.0
// Private: cuDNN graphs for attention and convolution. A plan is made at the first use of its key
// and kept for the life of the process; running one allocates nothing. Without cudnn-frontend in
// the build (cudnn_graphs.cpp) there are no plans.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>

#include "runtime/device/device.h"
#include "runtime/ops/convolution/convolution_geometry.h"

namespace trireme::ops::cuda {

// Of the rows of an AttentionPart. `queries` of `rows` of each sample of the projection and of out,
// which have `heads` and `kv_heads`, attend as the last of `length` positions to keys (batch,
// positions, graph's kv_heads * size).
struct AttentionPartRows {
  std::int64_t queries = 0;  // 0: the graph is of whole samples
  std::int64_t rows = 0, positions = 0, heads = 0, kv_heads = 0;
  bool f32 = false;  // dk and dv; plans with the dtype are the second choice
  friend auto operator<=>(const AttentionPartRows&, const AttentionPartRows&) = default;
};

// Attention over the packed projection (B, T, heads + 2 kv_heads, size) with AttentionOptions; f16
// or bf16. Refuses a soft cap, which our graph lacks. Operands, forward: q, k, v, out, lse;
// backward: q, k, v, out, lse, dout, dq, dk, dv. With `sequences` these hold that many sequences of
// up to `length`, one after the other in batch * length positions; lse is then (positions, heads).
// Before the others come lengths (sequences) i32 and, (sequences + 1) i64 each, the offsets of
// sequences in elements of the projection, of out, and of lse. Of a part, lse (batch, heads,
// queries), dk and dv (batch, length, kv_heads * size) are dense.
struct AttentionGraph {
  enum class Pass : std::uint8_t { forward, backward } pass;
  DType dtype;
  std::int64_t batch, length, heads, kv_heads, size;
  bool causal = true;
  std::int64_t window = 0;
  float scale = 0;  // of the scores; 0: 1 / sqrt(size)
  float soft_cap = 0;
  bool deterministic = false;  // only for backward
  std::int64_t sequences = 0;  // 0: `batch` of `length` each
  AttentionPartRows part{};
  friend auto operator<=>(const AttentionGraph&, const AttentionGraph&) = default;
};

// Operands, forward: x, w, y; backward_input: dy, w, dx; backward_weight: dy, x, dw. With `adds` a
// tensor like the result precedes it and is added before the result is rounded. Equal operands
// always give equal bits.
struct ConvolutionGraph {
  enum class Pass : std::uint8_t { forward, backward_input, backward_weight } pass;
  DType dtype;
  DType result;  // f32 for dw; plans with `dtype` are the second choice
  ConvolutionGeometry geometry;
  bool tf32;                    // f32 operands may be rounded to 10 bits of mantissa
  std::size_t workspace_limit;  // plans that need more are skipped
  bool adds = false;            // not with forward
  friend auto operator<=>(const ConvolutionGraph&, const ConvolutionGraph&) = default;
};

using CudnnGraph = std::variant<AttentionGraph, ConvolutionGraph>;

[[nodiscard]] std::string to_string(const CudnnGraph& graph);
[[nodiscard]] std::size_t plan_hash(const CudnnGraph& graph);

// What cuDNN offers for a graph.
struct CudnnOffer {
  std::int64_t candidates = 0;  // plans that could run it; the first is used
  std::string engine;           // the name of that plan
  std::size_t workspace_bytes = 0;
  std::string refusal;  // why there is none
};

class CudnnPlan {
 public:
  virtual ~CudnnPlan() = default;
  CudnnPlan(const CudnnPlan&) = delete;
  CudnnPlan& operator=(const CudnnPlan&) = delete;
  [[nodiscard]] virtual std::size_t workspace_bytes() const = 0;
  // Dtype of the last operand.
  [[nodiscard]] virtual DType result() const = 0;
  // Enqueues the graph. `operands` in the above order.
  virtual void run(Stream& stream, std::span<void* const> operands, void* workspace) const = 0;

 protected:
  CudnnPlan() = default;
};

// "9.28.1", or empty if cuDNN is not in the build. Raises an error if the run-time library cannot
// serve a program compiled for this one.
[[nodiscard]] std::string cudnn_version();

// The plan for the current GPU; null without cuDNN or if it has none (logged once per graph).
[[nodiscard]] const CudnnPlan* cudnn_plan(const CudnnGraph& graph);

// The plan for the stream's GPU. For a described GPU (Execution::host) returns a plan that is only
// logged, for every graph but attention with a soft cap. From a thread's second call with a graph
// on it neither allocates nor locks.
[[nodiscard]] const CudnnPlan* cudnn_plan_for(const Stream& stream, const CudnnGraph& graph);

// The workspace of a plan, from the shape alone: at least what cuDNN 9.28 takes on GPUs of this
// compute capability.
[[nodiscard]] std::size_t cudnn_workspace_bytes(const AttentionGraph& graph,
                                                int compute_capability);

// Asks about a described GPU (compute capability 90 is major 9, minor 0; cuDNN's own JSON of device
// properties), on machines without one.
[[nodiscard]] CudnnOffer cudnn_offer(const CudnnGraph& graph, int compute_capability,
                                     const std::string& device_properties);

}  // namespace trireme::ops::cuda
