// SPDX-License-Identifier: Apache-2.0
// Attention on a GPU: by cuDNN if it has a plan for the shape, else by our own kernels.
#include <array>

#include "runtime/device/cuda/cuda_stream.h"
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/attention/attention.h"
#include "runtime/ops/attention/attention_kernels_cuda.h"
#include "runtime/ops/attention/attention_sizes.h"
#include "runtime/ops/common/cudnn_graphs.h"

namespace trireme::ops::cuda {
namespace {

using Pass = AttentionGraph::Pass;

const CudnnPlan* plan_for(const Stream& stream, Pass pass, const Tensor& qkv,
                          const AttentionSizes& sizes) {
  if (qkv.dtype == DType::f32) return nullptr;  // cuDNN's is f16 and bf16 only
  // cuDNN's ragged form fixes the number of sequences in the plan; documents are data.
  if (sizes.starts != nullptr) return nullptr;
  return cudnn_plan_for(
      stream,
      AttentionGraph{.pass = pass,
                     .dtype = qkv.dtype,
                     .batch = sizes.batch,
                     .length = sizes.length,
                     .heads = sizes.heads,
                     .kv_heads = sizes.kv_heads,
                     .size = sizes.size,
                     .causal = sizes.causal,
                     .window = sizes.window < sizes.length ? sizes.window : 0,
                     .scale = sizes.scale,
                     .soft_cap = sizes.soft_cap,
                     .deterministic = pass == Pass::backward && stream.policy().reproducible});
}

// The first queries, keys and values in a packed projection.
std::array<void*, 3> parts_of(const Tensor& packed, const AttentionSizes& sizes) {
  const auto part = [&](std::int64_t heads) {
    return packed.data + static_cast<std::size_t>(heads * sizes.size) * size_of(packed.dtype);
  };
  return {packed.data, part(sizes.heads), part(sizes.heads + sizes.kv_heads)};
}

void* scratch(Stream& stream, const CudnnPlan& plan, const Tensor& given = {}) {
  if (given.bytes() >= plan.workspace_bytes()) return given.data;
  return CudaStream::of(stream).scratch(plan.workspace_bytes());
}

}  // namespace

void attention_forward(Stream& stream, const Tensor& out, const Tensor& lse, const Tensor& qkv,
                       const AttentionOptions& options) {
  const AttentionSizes sizes(qkv, options);
  const CudnnPlan* const plan = plan_for(stream, Pass::forward, qkv, sizes);
  if (plan == nullptr) {
    simt_attention_forward(stream, out, lse, qkv, options);
    return;
  }
  const auto [q, k, v] = parts_of(qkv, sizes);
  plan->run(stream, std::array<void*, 5>{q, k, v, out.data, lse.data}, scratch(stream, *plan));
}

void attention_backward(Stream& stream, const Tensor& dqkv, const Tensor& dout, const Tensor& out,
                        const Tensor& lse, const Tensor& qkv, const AttentionOptions& options) {
  const AttentionSizes sizes(qkv, options);
  const CudnnPlan* const plan = plan_for(stream, Pass::backward, qkv, sizes);
  if (plan == nullptr) {
    simt_attention_backward(stream, dqkv, dout, out, lse, qkv, options);
    return;
  }
  const auto [q, k, v] = parts_of(qkv, sizes);
  const auto [dq, dk, dv] = parts_of(dqkv, sizes);
  plan->run(stream, std::array<void*, 9>{q, k, v, out.data, lse.data, dout.data, dq, dk, dv},
            scratch(stream, *plan, options.workspace));
}

TRIREME_CUDA_PROVIDES(ops, attention_forward);
TRIREME_CUDA_PROVIDES(ops, attention_backward);

}  // namespace trireme::ops::cuda
