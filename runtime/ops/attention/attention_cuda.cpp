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

std::int64_t documents_of(const AttentionOptions& options) {
  return options.document_bounds.empty() ? 0 : options.document_bounds.count() - 1;
}

const CudnnPlan* plan_of_pass(const Stream& stream, Pass pass, const Tensor& qkv,
                              const AttentionSizes& sizes, std::int64_t documents) {
  if (qkv.dtype == DType::f32) return nullptr;  // cuDNN's is f16 and bf16 only
  // A plan has a fixed number of sequences; their lengths are data.
  if (sizes.starts != nullptr && documents == 0) return nullptr;
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
                     .deterministic = pass == Pass::backward && stream.policy().reproducible,
                     .sequences = documents});
}

// With documents both passes must be cuDNN's: lse has another layout then.
const CudnnPlan* plan_for(const Stream& stream, Pass pass, const Tensor& qkv,
                          const AttentionSizes& sizes, std::int64_t documents) {
  const auto plan = [&](Pass of) { return plan_of_pass(stream, of, qkv, sizes, documents); };
  if (documents > 0 && (plan(Pass::backward) == nullptr || plan(Pass::forward) == nullptr))
    return nullptr;
  return plan(pass);
}

// The first queries, keys and values in a packed projection.
std::array<void*, 3> parts_of(const Tensor& packed, const AttentionSizes& sizes) {
  const auto part = [&](std::int64_t heads) {
    return packed.data + static_cast<std::size_t>(heads * sizes.size) * size_of(packed.dtype);
  };
  return {packed.data, part(sizes.heads), part(sizes.heads + sizes.kv_heads)};
}

// Runs `plan`, whose operands but for those of documents are given.
// `given` is used if it is large enough.
template <typename... Operands>
void run(Stream& stream, const CudnnPlan& plan, const AttentionSizes& sizes,
         const AttentionOptions& options, const Tensor& given, Operands*... operands) {
  constexpr std::size_t alignment = 256;
  const std::size_t workspace = (plan.workspace_bytes() + alignment - 1) / alignment * alignment;
  const std::int64_t documents = documents_of(options);
  const std::size_t bytes = workspace + (documents > 0 ? document_places_bytes(documents) : 0);
  const bool fits = !given.empty() && given.bytes() >= bytes;
  std::byte* const memory = fits ? given.data : CudaStream::of(stream).scratch(bytes);
  if (documents == 0) {
    plan.run(stream, std::array<void*, sizeof...(Operands)>{operands...}, memory);
    return;
  }
  const auto [lengths, projection, out, lse] =
      document_places(stream, options.document_bounds, sizes, memory + workspace);
  plan.run(stream,
           std::array<void*, 4 + sizeof...(Operands)>{lengths, projection, out, lse, operands...},
           memory);
}

}  // namespace

void attention_forward(Stream& stream, const Tensor& out, const Tensor& lse, const Tensor& qkv,
                       const AttentionOptions& options) {
  const AttentionSizes sizes(qkv, options);
  const CudnnPlan* const plan = plan_for(stream, Pass::forward, qkv, sizes, documents_of(options));
  if (plan == nullptr) {
    simt_attention_forward(stream, out, lse, qkv, options);
    return;
  }
  const auto [q, k, v] = parts_of(qkv, sizes);
  run(stream, *plan, sizes, options, /*given=*/{}, q, k, v, static_cast<void*>(out.data),
      static_cast<void*>(lse.data));
  if (sizes.sinks != nullptr) join_sinks(stream, out, lse, sizes, documents_of(options) > 0);
}

void attention_backward(Stream& stream, const Tensor& dqkv, const Tensor& dout, const Tensor& out,
                        const Tensor& lse, const Tensor& qkv, const AttentionOptions& options,
                        const Tensor& dsinks) {
  const AttentionSizes sizes(qkv, options);
  const CudnnPlan* const plan = plan_for(stream, Pass::backward, qkv, sizes, documents_of(options));
  if (plan == nullptr) {
    simt_attention_backward(stream, dqkv, dout, out, lse, qkv, options, dsinks);
    return;
  }
  const auto [q, k, v] = parts_of(qkv, sizes);
  const auto [dq, dk, dv] = parts_of(dqkv, sizes);
  run(stream, *plan, sizes, options, options.workspace, q, k, v, static_cast<void*>(out.data),
      static_cast<void*>(lse.data), static_cast<void*>(dout.data), dq, dk, dv);
  if (!dsinks.empty())
    add_sink_gradients(stream, dsinks, dout, out, lse, sizes, documents_of(options) > 0);
}

TRIREME_CUDA_PROVIDES(ops, attention_forward, attention_backward);

}  // namespace trireme::ops::cuda
