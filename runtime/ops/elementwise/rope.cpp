// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/elementwise/rope.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNEL(rope_forward);
TRIREME_KERNEL(rope_backward);

namespace {

void check_rope(std::string_view op, std::string_view name, const Tensor& qkv,
                const RopeOptions& options) {
  const Operands check(op);
  check.compute_dtype(name, qkv);
  check.rank(name, qkv, 3);
  TRIREME_EXPECTS(
      options.heads >= 1 && options.key_heads >= 1 && options.heads % options.key_heads == 0,
      "{}: {} heads and {} key heads, expected a multiple", op, options.heads, options.key_heads);
  const std::int64_t all = options.heads + 2 * options.key_heads;
  TRIREME_EXPECTS(qkv.shape[2] % (2 * all) == 0,
                  "{}: {} of shape {} does not divide into {} heads of an even size", op, name,
                  qkv.shape.to_string(), all);
  if (!options.document_starts.empty()) {
    check.is("document_starts", options.document_starts, DType::i32,
             Shape{qkv.shape[0], qkv.shape[1]});
  }
  TRIREME_EXPECTS(options.base > 1.0, "{}: a base of {}, expected more than 1", op, options.base);
  if (options.scaling == RopeScaling::none) return;
  TRIREME_EXPECTS(options.factor >= 1.0, "{}: a factor of {}, expected 1 or more", op,
                  options.factor);
  if (options.scaling == RopeScaling::linear) return;
  TRIREME_EXPECTS(options.original_context >= 1 && options.low_turns > 0 &&
                      options.low_turns < options.high_turns,
                  "{}: an original context of {} and turns from {} to {}", op,
                  options.original_context, options.low_turns, options.high_turns);
}

}  // namespace

void rope_forward(Stream& stream, const Tensor& qkv, const RopeOptions& options) {
  check_rope("rope_forward", "qkv", qkv, options);
  TRIREME_DISPATCH(stream, rope_forward, qkv, options);
}

void rope_backward(Stream& stream, const Tensor& dqkv, const RopeOptions& options) {
  check_rope("rope_backward", "dqkv", dqkv, options);
  TRIREME_DISPATCH(stream, rope_backward, dqkv, options);
}

}  // namespace trireme::ops
