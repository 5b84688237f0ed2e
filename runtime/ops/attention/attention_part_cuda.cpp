// SPDX-License-Identifier: Apache-2.0
// Attention of parts on a GPU: by cuDNN if it has a plan for the shape, else by our own kernels.
#include <array>

#include "runtime/device/cuda/cuda_stream.h"
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/attention/attention_kernels_cuda.h"
#include "runtime/ops/attention/attention_sizes.h"
#include "runtime/ops/common/cudnn_graphs.h"

namespace trireme::ops::cuda {
namespace {

using Pass = AttentionGraph::Pass;

const CudnnPlan* plan_for(const Stream& stream, Pass pass, DType dtype, const Tensor& keys,
                          const AttentionSizes& sizes) {
  // cuDNN's is f16 and bf16 only; documents of a part have other lengths than their keys.
  if (dtype == DType::f32 || sizes.starts != nullptr) return nullptr;
  const bool backward = pass == Pass::backward;
  return cudnn_plan_for(stream,
                        AttentionGraph{.pass = pass,
                                       .dtype = dtype,
                                       .batch = sizes.batch,
                                       .length = sizes.reached(),
                                       .heads = sizes.head_count(),
                                       .kv_heads = sizes.key_heads,
                                       .size = sizes.size,
                                       .window = sizes.window < sizes.reached() ? sizes.window : 0,
                                       .scale = sizes.scale,
                                       .soft_cap = sizes.soft_cap,
                                       .deterministic = backward && stream.policy().reproducible,
                                       .part = {.queries = sizes.queries(),
                                                .rows = sizes.rows,
                                                .positions = keys.shape[1],
                                                .heads = sizes.heads,
                                                .kv_heads = sizes.kv_heads,
                                                .f32 = backward}});
}

// The part's first query in a tensor of `places` heads a row.
void* first_query(const Tensor& tensor, std::int64_t places, const AttentionSizes& sizes) {
  const std::int64_t at = (sizes.row * places + sizes.first_head()) * sizes.size;
  return tensor.data + static_cast<std::size_t>(at) * size_of(tensor.dtype);
}

void* first_key(const Tensor& keys, const AttentionSizes& sizes) {
  const std::int64_t at = sizes.first_reached() * sizes.key_stride;
  return keys.data + static_cast<std::size_t>(at) * size_of(keys.dtype);
}

// A plan's workspace, the part's dense lse, and `more` buffers of equal size: in `given` if it is
// large enough, else in the stream's scratch memory.
struct Memory {
  static constexpr std::size_t alignment = 256;
  void* workspace;
  float* lse;
  std::array<void*, 2> more;

  Memory(Stream& stream, const CudnnPlan& plan, const AttentionSizes& sizes, const Tensor& given,
         std::size_t bytes) {
    const auto padded = [](std::size_t size) {
      return (size + alignment - 1) / alignment * alignment;
    };
    const std::size_t first = padded(plan.workspace_bytes());
    const std::size_t second =
        padded(static_cast<std::size_t>(sizes.batch * sizes.head_count() * sizes.queries()) *
               sizeof(float));
    const std::size_t all = first + second + 2 * padded(bytes);
    const bool fits = !given.empty() && given.bytes() >= all;
    std::byte* const memory = fits ? given.data : CudaStream::of(stream).scratch(all);
    workspace = memory;
    lse = reinterpret_cast<float*>(memory + first);
    more = {memory + first + second, memory + first + second + padded(bytes)};
  }
};

}  // namespace

void attention_part_forward(Stream& stream, const Tensor& out, const Tensor& lse, const Tensor& qkv,
                            const Tensor& keys, const Tensor& values, const AttentionPart& part,
                            const AttentionOptions& options) {
  const AttentionSizes sizes(qkv, part, keys.shape, options);
  const CudnnPlan* const plan = plan_for(stream, Pass::forward, qkv.dtype, keys, sizes);
  if (plan == nullptr) {
    simt_attention_part_forward(stream, out, lse, qkv, keys, values, part, options);
    return;
  }
  const Memory memory(stream, *plan, sizes, /*given=*/{}, 0);
  plan->run(stream,
            std::array<void*, 5>{first_query(qkv, sizes.heads + 2 * sizes.kv_heads, sizes),
                                 first_key(keys, sizes), first_key(values, sizes),
                                 first_query(out, sizes.heads, sizes), memory.lse},
            memory.workspace);
  copy_part_lse(stream, memory.lse, lse, sizes, /*to_dense=*/false);
  if (sizes.sinks != nullptr) join_sinks(stream, out, lse, sizes, /*by_position=*/false);
}

void attention_part_backward(Stream& stream, const Tensor& dqkv, const Tensor& dkeys,
                             const Tensor& dvalues, const Tensor& dout, const Tensor& out,
                             const Tensor& lse, const Tensor& qkv, const Tensor& keys,
                             const Tensor& values, const AttentionPart& part,
                             const AttentionOptions& options, const Tensor& dsinks) {
  const AttentionSizes sizes(qkv, part, keys.shape, options);
  const CudnnPlan* const plan = plan_for(stream, Pass::backward, qkv.dtype, keys, sizes);
  if (plan == nullptr) {
    simt_attention_part_backward(stream, dqkv, dkeys, dvalues, dout, out, lse, qkv, keys, values,
                                 part, options, dsinks);
    return;
  }
  const std::int64_t places = sizes.heads + 2 * sizes.kv_heads;
  const std::int64_t elements = sizes.batch * sizes.reached() * sizes.key_stride;
  const Memory memory(stream, *plan, sizes, options.workspace,
                      static_cast<std::size_t>(elements) * size_of(plan->result()));
  const auto [dk, dv] = memory.more;
  copy_part_lse(stream, memory.lse, lse, sizes, /*to_dense=*/true);
  plan->run(stream,
            std::array<void*, 9>{first_query(qkv, places, sizes), first_key(keys, sizes),
                                 first_key(values, sizes), first_query(out, sizes.heads, sizes),
                                 memory.lse, first_query(dout, sizes.heads, sizes),
                                 first_query(dqkv, places, sizes), dk, dv},
            memory.workspace);
  add_part_keys(stream, dkeys, dvalues, dk, dv, plan->result(), sizes);
  if (!dsinks.empty())
    add_sink_gradients(stream, dsinks, dout, out, lse, sizes, /*by_position=*/false);
}

TRIREME_CUDA_PROVIDES(ops, attention_part_forward, attention_part_backward);

}  // namespace trireme::ops::cuda
