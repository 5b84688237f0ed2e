// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/elementwise/rope.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNELS(rope_forward, rope_backward);

namespace {

void check_rope(std::string_view op, std::string_view name, const Tensor& qkv,
                const RopeOptions& options) {
  const Operands check(op);
  check.compute_dtype(name, qkv);
  check.rank(name, qkv, 3);
  TRIREME_EXPECTS(
      options.heads >= 1 && options.kv_heads >= 1 && options.heads % options.kv_heads == 0,
      "{}: {} heads and {} key heads, expected a multiple", op, options.heads, options.kv_heads);
  const std::int64_t all = options.heads + 2 * options.kv_heads;
  TRIREME_EXPECTS(qkv.shape[2] % (2 * all) == 0,
                  "{}: {} of shape {} cannot be split into {} heads of an even size", op, name,
                  qkv.shape.to_string(), all);
  if (!options.document_starts.empty()) {
    check.is("document_starts", options.document_starts, DType::i32,
             Shape{qkv.shape[0], qkv.shape[1]});
  }
  check.runs(options.runs, qkv.shape[1]);
  TRIREME_EXPECTS(options.base > 1.0, "{}: a base of {}, expected more than 1", op, options.base);
  if (options.scaling == RopeScaling::none) return;
  TRIREME_EXPECTS(options.factor >= 1.0, "{}: a factor of {}, expected 1 or more", op,
                  options.factor);
  if (options.scaling == RopeScaling::linear) return;
  TRIREME_EXPECTS(options.original_context >= 1 && options.low_freq_factor > 0 &&
                      options.low_freq_factor < options.high_freq_factor,
                  "{}: an original context of {} and turns from {} to {}", op,
                  options.original_context, options.low_freq_factor, options.high_freq_factor);
}

// Traffic of queries and keys.
Passes turned(const Tensor& qkv, const RopeOptions& options) {
  const auto all = static_cast<double>(options.heads + 2 * options.kv_heads);
  const double bytes = static_cast<double>(qkv.bytes()) *
                       static_cast<double>(options.heads + options.kv_heads) / all;
  return Passes().bytes(bytes, bytes).kernels(2);
}

}  // namespace

void rope_forward(Stream& stream, const Tensor& qkv, const RopeOptions& options,
                  const Tensor& spans, std::int64_t positions) {
  check_rope("rope_forward", "qkv", qkv, options);
  if (!spans.empty()) {
    const Operands check("rope_forward");
    check.is("spans", spans, DType::i32, Shape{qkv.shape[0], 2});
    check.runs(options.runs, qkv.shape[1], spans);
    TRIREME_EXPECTS(positions >= 1, "rope_forward: {} positions, expected 1 or more", positions);
  }
  TRIREME_DISPATCH(stream, rope_forward, turned(qkv, options).reads(options.document_starts, spans),
                   qkv, options, spans, positions);
}

void rope_backward(Stream& stream, const Tensor& dqkv, const RopeOptions& options) {
  check_rope("rope_backward", "dqkv", dqkv, options);
  TRIREME_DISPATCH(stream, rope_backward, turned(dqkv, options).reads(options.document_starts),
                   dqkv, options);
}

}  // namespace trireme::ops
