// SPDX-License-Identifier: Apache-2.0
// Attention on a GPU: by cuDNN where it has a plan for the shape, else by our own kernels.
#include <array>

#include "runtime/device/cuda/cuda_stream.h"
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/attention/attention.h"
#include "runtime/ops/attention/attention_kernels_cuda.h"
#include "runtime/ops/common/cudnn_graphs.h"

namespace trireme::ops::cuda {
namespace {

using Pass = AttentionGraph::Pass;

const CudnnPlan* plan_for(const Stream& stream, Pass pass, const Tensor& qkv, std::int64_t heads) {
  if (qkv.dtype == DType::f32) return nullptr;  // cuDNN's is f16 and bf16 only
  return cudnn_plan(
      AttentionGraph{.pass = pass,
                     .dtype = qkv.dtype,
                     .batch = qkv.shape[0],
                     .length = qkv.shape[1],
                     .heads = heads,
                     .key_heads = heads,
                     .size = qkv.shape[2] / (3 * heads),
                     .deterministic = pass == Pass::backward && stream.policy().reproducible});
}

// Queries, keys and values of a packed projection (B, T, 3*H*D).
std::array<void*, 3> parts_of(const Tensor& packed) {
  const std::size_t part = static_cast<std::size_t>(packed.shape[2] / 3) * size_of(packed.dtype);
  return {packed.data, packed.data + part, packed.data + 2 * part};
}

void* scratch(Stream& stream, const CudnnPlan& plan) {
  return CudaStream::of(stream).scratch(plan.workspace_bytes());
}

}  // namespace

void attention_forward(Stream& stream, const Tensor& out, const Tensor& lse, const Tensor& qkv,
                       std::int64_t heads) {
  const CudnnPlan* const plan = plan_for(stream, Pass::forward, qkv, heads);
  if (plan == nullptr) {
    simt_attention_forward(stream, out, lse, qkv, heads);
    return;
  }
  const auto [q, k, v] = parts_of(qkv);
  plan->run(stream, std::array<void*, 5>{q, k, v, out.data, lse.data}, scratch(stream, *plan));
}

void attention_backward(Stream& stream, const Tensor& dqkv, const Tensor& dout, const Tensor& out,
                        const Tensor& lse, const Tensor& qkv, std::int64_t heads) {
  const CudnnPlan* const plan = plan_for(stream, Pass::backward, qkv, heads);
  if (plan == nullptr) {
    simt_attention_backward(stream, dqkv, dout, out, lse, qkv, heads);
    return;
  }
  const auto [q, k, v] = parts_of(qkv);
  const auto [dq, dk, dv] = parts_of(dqkv);
  plan->run(stream, std::array<void*, 9>{q, k, v, out.data, lse.data, dout.data, dq, dk, dv},
            scratch(stream, *plan));
}

TRIREME_CUDA_PROVIDES(ops, attention_forward);
TRIREME_CUDA_PROVIDES(ops, attention_backward);

}  // namespace trireme::ops::cuda
