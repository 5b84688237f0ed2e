// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/attention/attention_part.h"

#include <algorithm>

#include "runtime/ops/attention/attention_checks.h"
#include "runtime/ops/common/cudnn_graphs.h"
#include "runtime/ops/common/dispatch.h"

namespace trireme::ops {

TRIREME_KERNELS(attention_part_forward, attention_part_backward);

namespace {

// Returns the shape of `out`.
Shape check_part(const Operands& check, std::string_view op, const Tensor& qkv, const Tensor& keys,
                 const Tensor& values, const AttentionPart& part, const AttentionOptions& options) {
  const Shape out = check_qkv(check, op, qkv, options);
  TRIREME_EXPECTS(options.causal, "{}: causal attention only", op);
  TRIREME_EXPECTS(options.document_bounds.empty(), "{}: document_bounds, expected none", op);
  check.present("keys", keys);
  check.dtype("keys", keys, qkv.dtype);
  check.rank("keys", keys, 3);
  const std::int64_t size = out[2] / options.heads, key_heads = keys.shape[2] / size;
  TRIREME_EXPECTS(keys.shape[0] == out[0] && keys.shape[2] == key_heads * size && key_heads >= 1 &&
                      part.key_head >= 0 && part.key_head + key_heads <= options.kv_heads,
                  "{}: keys of shape {} from key head {} on, expected {} samples of some of {} key "
                  "heads of size {}",
                  op, keys.shape.to_string(), part.key_head, out[0], options.kv_heads, size);
  check.is("values", values, qkv.dtype, keys.shape);
  TRIREME_EXPECTS(part.row >= 0 && part.rows >= 0 && part.row + part.rows <= out[1],
                  "{}: {} rows from row {} on of {}", op, part.rows, part.row, out[1]);
  TRIREME_EXPECTS(part.position >= 0 && part.position + part.rows <= keys.shape[1],
                  "{}: {} positions from position {} on of {}", op, part.rows, part.position,
                  keys.shape[1]);
  return out;
}

// Bytes of a part's rows and heads in each kind of tensor. Keys that no window reaches are not
// read.
struct PartBytes {
  double queries, keys, key_sums, lse, starts, sinks;

  PartBytes(const AttentionSizes& sizes, DType dtype) {
    const auto element = static_cast<double>(size_of(dtype));
    const auto rows = static_cast<double>(sizes.batch * sizes.queries());
    const auto heads = static_cast<double>(sizes.head_count());
    const auto elements = static_cast<double>(sizes.batch * sizes.reached() * sizes.key_stride);
    queries = rows * heads * static_cast<double>(sizes.size) * element;
    keys = elements * element;
    key_sums = elements * sizeof(float);
    lse = rows * heads * sizeof(float);
    starts = sizes.starts != nullptr ? rows * sizeof(std::int32_t) : 0;
    sinks = sizes.sinks != nullptr ? heads * sizeof(float) : 0;
  }
};

// Whether cuDNN has plans. Then lse is copied, dk and dv are added, and sinks are passes of their
// own; bytes are declared as our own kernels read them.
bool has_plans(DType dtype, const AttentionSizes& sizes) {
  return dtype != DType::f32 && sizes.starts == nullptr && sizes.soft_cap == 0;
}

// One pass over queries, keys and values.
Passes forward_passes(const Tensor& qkv, const AttentionSizes& sizes) {
  const PartBytes part(sizes, qkv.dtype);
  return Passes()
      .bytes(part.queries + 2 * part.keys + part.starts + part.sinks, part.queries + part.lse)
      .kernels(has_plans(qkv.dtype, sizes) ? 2 + (sizes.sinks != nullptr ? 1 : 0) : 1)
      .flops(WorkRate::attention, forward_flops(sizes), sizes.size);
}

// As in attention_backward: row sums, then a pass for keys and values and one for queries.
Passes backward_passes(const Tensor& qkv, const AttentionSizes& sizes, bool sinks) {
  const PartBytes part(sizes, qkv.dtype);
  const double pass = 2 * part.queries + 2 * part.keys + part.lse + part.starts;
  return Passes()
      .bytes(2 * part.queries + 2 * pass + 2 * part.key_sums, part.queries + 2 * part.key_sums)
      .bytes(sinks ? part.lse + 2 * part.sinks : 0, sinks ? part.sinks : 0)
      .flops(WorkRate::attention, 2.5 * forward_flops(sizes), sizes.size)
      .kernels(has_plans(qkv.dtype, sizes) ? 5 + (sinks ? 2 : 0) : 3 + (sinks ? 1 : 0));
}

}  // namespace

void attention_part_forward(Stream& stream, const Tensor& out, const Tensor& lse, const Tensor& qkv,
                            const Tensor& keys, const Tensor& values, const AttentionPart& part,
                            const AttentionOptions& options) {
  constexpr std::string_view op = "attention_part_forward";
  const Operands check(op);
  const Shape shape = check_part(check, op, qkv, keys, values, part, options);
  check.is("out", out, qkv.dtype, shape);
  check.is("lse", lse, DType::f32, Shape{shape[0], options.heads, shape[1]});
  for (const Tensor& read : {qkv, keys, values}) {
    check.disjoint("out", out, "an operand", read);
    check.disjoint("lse", lse, "an operand", read);
  }
  check.disjoint("lse", lse, "out", out);
  if (part.rows == 0 || qkv.count() == 0) return;
  TRIREME_DISPATCH(stream, attention_part_forward,
                   forward_passes(qkv, {qkv, part, keys.shape, options}), out, lse, qkv, keys,
                   values, part, options);
}

std::size_t attention_part_workspace_bytes(DeviceType device, DType dtype, std::int64_t batch,
                                           const AttentionPart& part, std::int64_t key_heads,
                                           std::int64_t size, const AttentionOptions& options,
                                           bool deterministic) {
  const int capability = planned_capability(device, dtype, options);
  if (capability == 0 || !options.document_starts.empty()) return 0;
  const std::int64_t heads = options.heads / options.kv_heads * key_heads;
  const std::int64_t end = part.position + part.rows;
  const std::int64_t reached =
      options.window > 0 ? std::min(end, part.rows + options.window - 1) : end;
  const std::size_t bytes =
      cuda::cudnn_workspace_bytes({.pass = cuda::AttentionGraph::Pass::backward,
                                   .dtype = dtype,
                                   .batch = batch,
                                   .length = reached,
                                   .heads = heads,
                                   .kv_heads = key_heads,
                                   .size = size,
                                   .deterministic = deterministic,
                                   .part = {.queries = part.rows}},
                                  capability);
  constexpr std::int64_t padding = 4 * 256;
  return bytes + static_cast<std::size_t>(
                     batch * (heads * part.rows + 2 * reached * key_heads * size) * 4 + padding);
}

void attention_part_backward(Stream& stream, const Tensor& dqkv, const Tensor& dkeys,
                             const Tensor& dvalues, const Tensor& dout, const Tensor& out,
                             const Tensor& lse, const Tensor& qkv, const Tensor& keys,
                             const Tensor& values, const AttentionPart& part,
                             const AttentionOptions& options, const Tensor& dsinks) {
  constexpr std::string_view op = "attention_part_backward";
  const Operands check(op);
  const Shape shape = check_part(check, op, qkv, keys, values, part, options);
  check.is("dqkv", dqkv, qkv.dtype, qkv.shape);
  check.is("dkeys", dkeys, DType::f32, keys.shape);
  check.is("dvalues", dvalues, DType::f32, keys.shape);
  check.is("dout", dout, qkv.dtype, shape);
  check.is("out", out, qkv.dtype, shape);
  check.is("lse", lse, DType::f32, Shape{shape[0], options.heads, shape[1]});
  check.disjoint("dkeys", dkeys, "dvalues", dvalues);
  check.disjoint("dqkv", dqkv, "dkeys", dkeys);
  check.disjoint("dqkv", dqkv, "dvalues", dvalues);
  for (const Tensor& written : {dqkv, dkeys, dvalues}) {
    for (const Tensor& read : {dout, out, lse, qkv, keys, values})
      check.disjoint("a gradient", written, "an operand", read);
  }
  if (!dsinks.empty()) {
    check.is("dsinks", dsinks, DType::f32, Shape{options.heads});
    check.present("sinks", options.sinks);
    check.disjoint("dsinks", dsinks, "sinks", options.sinks);
  }
  if (part.rows == 0 || qkv.count() == 0) return;
  TRIREME_DISPATCH(stream, attention_part_backward,
                   backward_passes(qkv, {qkv, part, keys.shape, options}, !dsinks.empty()), dqkv,
                   dkeys, dvalues, dout, out, lse, qkv, keys, values, part, options, dsinks);
}

}  // namespace trireme::ops
