// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/norm/head_norm.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNEL(head_norm_forward);
TRIREME_KERNEL(head_norm_backward);

namespace {

// x, its scales and its statistics. Returns the shape of a scale.
Shape check_input(const Operands& check, std::string_view op, const Tensor& x, const Tensor& rstd,
                  const Tensor& query_gamma, const Tensor& key_gamma,
                  const HeadNormOptions& options) {
  check.compute_dtype("x", x);
  check.rank("x", x, 3);
  const std::int64_t all = options.heads + 2 * options.kv_heads;
  TRIREME_EXPECTS(options.heads >= 1 && options.kv_heads >= 1 && x.shape[2] % all == 0,
                  "{}: x of shape {} cannot be split into {} heads and 2 times {} key heads", op,
                  x.shape.to_string(), options.heads, options.kv_heads);
  const Shape scale{x.shape[2] / all};
  check.is("query_gamma", query_gamma, DType::f32, scale);
  check.is("key_gamma", key_gamma, DType::f32, scale);
  check.is("rstd", rstd, DType::f32,
           Shape{x.shape[0], x.shape[1], options.heads + options.kv_heads});
  return scale;
}

// Bytes of queries and keys.
double normed_bytes(const Tensor& x, const HeadNormOptions& options) {
  const auto all = static_cast<double>(options.heads + 2 * options.kv_heads);
  return static_cast<double>(x.bytes()) * static_cast<double>(options.heads + options.kv_heads) /
         all;
}

}  // namespace

void head_norm_forward(Stream& stream, const Tensor& y, const Tensor& rstd, const Tensor& x,
                       const Tensor& query_gamma, const Tensor& key_gamma,
                       const HeadNormOptions& options) {
  constexpr std::string_view op = "head_norm_forward";
  const Operands check(op);
  check_input(check, op, x, rstd, query_gamma, key_gamma, options);
  check.is("y", y, x.dtype, x.shape);
  check.disjoint("y", y, "x", x);
  TRIREME_DISPATCH(stream, head_norm_forward, reads(x, query_gamma, key_gamma).writes(y, rstd), y,
                   rstd, x, query_gamma, key_gamma, options);
}

void head_norm_backward(Stream& stream, const Tensor& dqkv, const Tensor& d_query_gamma,
                        const Tensor& d_key_gamma, const Tensor& x, const Tensor& rstd,
                        const Tensor& query_gamma, const Tensor& key_gamma,
                        const HeadNormOptions& options) {
  constexpr std::string_view op = "head_norm_backward";
  const Operands check(op);
  const Shape scale = check_input(check, op, x, rstd, query_gamma, key_gamma, options);
  check.is("dqkv", dqkv, x.dtype, x.shape);
  check.disjoint("dqkv", dqkv, "x", x);
  check.is("d_query_gamma", d_query_gamma, DType::f32, scale);
  check.is("d_key_gamma", d_key_gamma, DType::f32, scale);
  TRIREME_DISPATCH(stream, head_norm_backward,
                   reads(rstd, query_gamma, key_gamma)
                       .bytes(2 * normed_bytes(x, options), normed_bytes(x, options))
                       .updates(d_query_gamma, d_key_gamma)
                       .kernels(2),
                   dqkv, d_query_gamma, d_key_gamma, x, rstd, query_gamma, key_gamma, options);
}

}  // namespace trireme::ops
