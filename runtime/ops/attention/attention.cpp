// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/attention/attention.h"

#include <algorithm>
#include <utility>

#include "runtime/device/cuda_slot.h"
#include "runtime/device/gpu_facts.h"
#include "runtime/ops/attention/attention_checks.h"
#include "runtime/ops/attention/attention_sizes.h"
#include "runtime/ops/common/cudnn_graphs.h"
#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNELS(attention_forward, attention_backward, attention_cached_forward, attention_append);

Shape check_qkv(const Operands& check, std::string_view op, const Tensor& qkv,
                const AttentionOptions& options) {
  check.compute_dtype("qkv", qkv);
  check.rank("qkv", qkv, 3);
  const std::int64_t heads = options.heads, kv_heads = options.kv_heads;
  TRIREME_EXPECTS(heads >= 1 && kv_heads >= 1 && heads % kv_heads == 0,
                  "{}: {} heads and {} key heads, expected a multiple", op, heads, kv_heads);
  TRIREME_EXPECTS(qkv.shape[2] % (heads + 2 * kv_heads) == 0,
                  "{}: qkv of shape {} cannot be split into {} heads and 2 times {} key heads", op,
                  qkv.shape.to_string(), heads, kv_heads);
  TRIREME_EXPECTS(options.window >= 0 && (options.causal || options.window == 0),
                  "{}: a window of {} keys, expected none, or a positive one with causal attention",
                  op, options.window);
  TRIREME_EXPECTS(options.scale >= 0, "{}: scores scaled by {}, expected 0 or more", op,
                  options.scale);
  TRIREME_EXPECTS(options.soft_cap >= 0, "{}: a soft cap of {}, expected 0 or more", op,
                  options.soft_cap);
  if (!options.document_starts.empty()) {
    check.is("document_starts", options.document_starts, DType::i32,
             Shape{qkv.shape[0], qkv.shape[1]});
  }
  if (const Tensor& bounds = options.document_bounds; !bounds.empty()) {
    TRIREME_EXPECTS(options.causal && !options.document_starts.empty() && bounds.count() >= 2,
                    "{}: {} bounds of documents, expected 2 or more, their starts, and causal "
                    "attention",
                    op, bounds.count());
    check.is("document_bounds", bounds, DType::i32, Shape{bounds.count()});
  }
  if (!options.sinks.empty()) check.is("sinks", options.sinks, DType::f32, Shape{heads});
  return Shape{qkv.shape[0], qkv.shape[1], qkv.shape[2] / (heads + 2 * kv_heads) * heads};
}

double forward_flops(AttentionSizes sizes) {
  sizes.starts = nullptr;
  double pairs = 0;
  for (std::int64_t query = sizes.first; query < sizes.length; ++query)
    pairs += static_cast<double>(std::min(sizes.end_of_keys(query), sizes.length) -
                                 sizes.first_key(query));
  return 4 * pairs * static_cast<double>(sizes.batch * sizes.head_count() * sizes.size);
}

namespace {

// cuDNN's offsets of documents are a kernel's work.
int offset_kernels(const Tensor& qkv, const AttentionOptions& options) {
  return qkv.dtype != DType::f32 && !options.document_bounds.empty() ? 1 : 0;
}

// In 16 bits sinks are a pass of their own, after cuDNN's.
Passes forward_passes(const Tensor& out, const Tensor& lse, const Tensor& qkv,
                      const AttentionOptions& options) {
  const AttentionSizes sizes(qkv, options);
  const bool joins = qkv.dtype != DType::f32 && !options.sinks.empty();
  return reads(qkv, options.document_starts, options.sinks)
      .writes(out, lse)
      .reads_if(joins, out, lse)
      .writes_if(joins, out, lse)
      .kernels(1 + offset_kernels(qkv, options) + (joins ? 1 : 0))
      .flops(WorkRate::attention, forward_flops(sizes), sizes.size);
}

// Backward recomputes scores, then does four products for forward's two. In f32 our own kernels:
// row sums of dout * out, then a pass for keys and values and one for queries. Otherwise like
// cuDNN: one pass, beside which dq is summed in f32 and rounded, and row sums again for sinks.
Passes backward_passes(const Tensor& dqkv, const Tensor& dout, const Tensor& out, const Tensor& lse,
                       const Tensor& qkv, const AttentionOptions& options, const Tensor& dsinks) {
  const AttentionSizes sizes(qkv, options);
  const bool again = qkv.dtype != DType::f32 && !dsinks.empty();
  Passes passes =
      reads(dout, out, qkv, dout, lse)
          .writes(dqkv)
          .flops(WorkRate::attention, 2.5 * forward_flops(sizes), sizes.size)
          .reads_if(!dsinks.empty(), lse, options.sinks)
          .reads_if(again, dout, out)
          .updates(dsinks)
          .kernels(3 + offset_kernels(qkv, options) + (dsinks.empty() ? 0 : 1) + (again ? 1 : 0));
  if (qkv.dtype == DType::f32)
    return std::move(passes).reads(qkv, dout, lse, options.document_starts);
  const double sums = static_cast<double>(out.count()) * sizeof(float);
  return std::move(passes).bytes(sums, sums);
}

}  // namespace

void attention_forward(Stream& stream, const Tensor& out, const Tensor& lse, const Tensor& qkv,
                       const AttentionOptions& options) {
  constexpr std::string_view op = "attention_forward";
  const Operands check(op);
  const Shape out_shape = check_qkv(check, op, qkv, options);
  check.is("out", out, qkv.dtype, out_shape);
  check.is("lse", lse, DType::f32, Shape{out_shape[0], options.heads, out_shape[1]});
  check.disjoint("out", out, "qkv", qkv);
  check.disjoint("lse", lse, "qkv", qkv);
  check.disjoint("lse", lse, "out", out);
  TRIREME_DISPATCH(stream, attention_forward, forward_passes(out, lse, qkv, options), out, lse, qkv,
                   options);
}

void attention_backward(Stream& stream, const Tensor& dqkv, const Tensor& dout, const Tensor& out,
                        const Tensor& lse, const Tensor& qkv, const AttentionOptions& options,
                        const Tensor& dsinks) {
  constexpr std::string_view op = "attention_backward";
  const Operands check(op);
  const Shape out_shape = check_qkv(check, op, qkv, options);
  check.is("dqkv", dqkv, qkv.dtype, qkv.shape);
  check.is("dout", dout, qkv.dtype, out_shape);
  check.is("out", out, qkv.dtype, out_shape);
  check.is("lse", lse, DType::f32, Shape{out_shape[0], options.heads, out_shape[1]});
  check.disjoint("dqkv", dqkv, "qkv", qkv);
  check.disjoint("dqkv", dqkv, "dout", dout);
  check.disjoint("dqkv", dqkv, "out", out);
  check.disjoint("dqkv", dqkv, "lse", lse);
  if (!dsinks.empty()) {
    check.is("dsinks", dsinks, DType::f32, Shape{options.heads});
    check.present("sinks", options.sinks);
    check.disjoint("dsinks", dsinks, "sinks", options.sinks);
  }
  TRIREME_DISPATCH(stream, attention_backward,
                   backward_passes(dqkv, dout, out, lse, qkv, options, dsinks), dqkv, dout, out,
                   lse, qkv, options, dsinks);
}

namespace {

// Returns the shape of the output.
Shape check_caches(const Operands& check, std::string_view op, const Tensor& keys,
                   const Tensor& values, const Tensor& qkv, const Tensor& spans,
                   const AttentionOptions& options) {
  const Shape out_shape = check_qkv(check, op, qkv, options);
  TRIREME_EXPECTS(options.causal, "{}: causal attention only", op);
  check.rank("keys", keys, 3);
  const Shape cache{out_shape[0], keys.shape[1], out_shape[2] / options.heads * options.kv_heads};
  check.is("keys", keys, qkv.dtype, cache);
  check.is("values", values, qkv.dtype, cache);
  check.is("spans", spans, DType::i32, Shape{out_shape[0], 2});
  check.disjoint("keys", keys, "values", values);
  for (const Tensor& cached : {keys, values})
    check.disjoint("a cache", cached, "qkv", qkv);
  return out_shape;
}

}  // namespace

void attention_append(Stream& stream, const Tensor& keys, const Tensor& values, const Tensor& qkv,
                      const Tensor& spans, const AttentionOptions& options) {
  constexpr std::string_view op = "attention_append";
  const Operands check(op);
  const Shape out = check_caches(check, op, keys, values, qkv, spans, options);
  const double added =  // bytes of keys and values
      2.0 * static_cast<double>(options.kv_heads * out.count() / options.heads) *
      static_cast<double>(size_of(qkv.dtype));
  TRIREME_DISPATCH(stream, attention_append, reads(spans).bytes(added, added), keys, values, qkv,
                   spans, options);
}

void attention_cached_forward(Stream& stream, const Tensor& out, const Tensor& keys,
                              const Tensor& values, const Tensor& qkv, const Tensor& spans,
                              const AttentionOptions& options) {
  constexpr std::string_view op = "attention_cached_forward";
  const Operands check(op);
  check.is("out", out, qkv.dtype, check_caches(check, op, keys, values, qkv, spans, options));
  check.disjoint("out", out, "qkv", qkv);
  for (const Tensor& cached : {keys, values})
    check.disjoint("a cache", cached, "out", out);
  TRIREME_DISPATCH(stream, attention_cached_forward, reads(qkv, keys, values, spans).writes(out),
                   out, keys, values, qkv, spans, options);
}

int planned_capability(DeviceType device, DType dtype, const AttentionOptions& options) {
  if (device == DeviceType::cpu || dtype == DType::f32 || options.soft_cap > 0) return 0;
  // A build without the CUDA back end plans for one that has it, with cuDNN.
  if (cuda_slot<&attention_backward> != nullptr && cuda::cudnn_version().empty()) return 0;
  static const int capability = [] {
    constexpr int hopper = 90;
    const std::vector<GpuFacts> gpus = cuda_facts().gpus;
    return gpus.empty() ? hopper : gpus.front().capability;
  }();
  return capability;
}

std::size_t attention_workspace_bytes(DeviceType device, DType dtype, std::int64_t batch,
                                      std::int64_t length, std::int64_t size,
                                      const AttentionOptions& options, bool deterministic,
                                      std::int64_t documents) {
  const int capability = planned_capability(device, dtype, options);
  if (capability == 0) return 0;
  if (documents > 0 && (capability < 90 || size % 16 != 0)) return 0;
  return cuda::cudnn_workspace_bytes({.pass = cuda::AttentionGraph::Pass::backward,
                                      .dtype = dtype,
                                      .batch = batch,
                                      .length = length,
                                      .heads = options.heads,
                                      .kv_heads = options.kv_heads,
                                      .size = size,
                                      .deterministic = deterministic,
                                      .sequences = documents},
                                     capability);
}

std::string attention_backend(DeviceType device, DType compute) {
  const bool asked = device == DeviceType::cuda && compute != DType::f32;
  const std::string cudnn = asked ? cuda::cudnn_version() : "";
  return cudnn.empty() ? "own kernels" : "cuDNN " + cudnn;
}

}  // namespace trireme::ops
