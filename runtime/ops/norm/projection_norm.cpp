// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/norm/projection_norm.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNEL(projection_norm_squares);
TRIREME_KERNEL(projection_norm_forward);
TRIREME_KERNEL(projection_norm_slopes);
TRIREME_KERNEL(projection_norm_backward);

namespace {

void check_rows(const Operands& check, std::string_view op, const Tensor& x, const Tensor& sums,
                const ProjectionNormOptions& options) {
  check.compute_dtype("x", x);
  check.rank("x", x, 3);
  const std::int64_t all = options.heads + 2 * options.kv_heads;
  TRIREME_EXPECTS(
      options.heads >= 1 && options.kv_heads >= 1 && options.blocks >= 1 && x.shape[2] % all == 0,
      "{}: x of shape {} cannot be split into {} heads and 2 times {} key heads", op,
      x.shape.to_string(), options.heads, options.kv_heads);
  check.is("sums", sums, DType::f32, Shape{x.shape[0] * x.shape[1], 2});
}

void check_scales(const Operands& check, const Tensor& x, const ProjectionScales& scales,
                  const ProjectionNormOptions& options) {
  const std::int64_t size = x.shape[2] / (options.heads + 2 * options.kv_heads);
  check.is("queries", scales.queries, DType::f32, Shape{options.heads * size});
  check.is("keys", scales.keys, DType::f32, Shape{options.kv_heads * size});
}

// Bytes of queries and keys.
double normed_bytes(const Tensor& x, const ProjectionNormOptions& options) {
  const auto all = static_cast<double>(options.heads + 2 * options.kv_heads);
  return static_cast<double>(x.bytes()) * static_cast<double>(options.heads + options.kv_heads) /
         all;
}

}  // namespace

void projection_norm_squares(Stream& stream, const Tensor& squares, const Tensor& x,
                             const ProjectionNormOptions& options) {
  constexpr std::string_view op = "projection_norm_squares";
  check_rows(Operands(op), op, x, squares, options);
  TRIREME_DISPATCH(stream, projection_norm_squares,
                   reads().bytes(normed_bytes(x, options), 0).writes(squares), squares, x, options);
}

void projection_norm_forward(Stream& stream, const Tensor& y, const Tensor& x,
                             const Tensor& squares, const ProjectionScales& scales,
                             const ProjectionNormOptions& options) {
  constexpr std::string_view op = "projection_norm_forward";
  const Operands check(op);
  check_rows(check, op, x, squares, options);
  check_scales(check, x, scales, options);
  check.is("y", y, x.dtype, x.shape);
  check.disjoint("y", y, "x", x);
  TRIREME_DISPATCH(stream, projection_norm_forward,
                   reads(x, squares, scales.queries, scales.keys).writes(y), y, x, squares, scales,
                   options);
}

void projection_norm_slopes(Stream& stream, const Tensor& slopes, const Tensor& dy, const Tensor& x,
                            const Tensor& squares, const ProjectionScales& scales,
                            const ProjectionNormOptions& options) {
  constexpr std::string_view op = "projection_norm_slopes";
  const Operands check(op);
  check_rows(check, op, x, slopes, options);
  check_rows(check, op, x, squares, options);
  check_scales(check, x, scales, options);
  check.is("dy", dy, x.dtype, x.shape);
  TRIREME_DISPATCH(stream, projection_norm_slopes,
                   reads(squares, scales.queries, scales.keys)
                       .bytes(2 * normed_bytes(x, options), 0)
                       .writes(slopes),
                   slopes, dy, x, squares, scales, options);
}

void projection_norm_backward(Stream& stream, const Tensor& dqkv, const ProjectionScales& gradients,
                              const Tensor& x, const Tensor& squares, const Tensor& slopes,
                              const ProjectionScales& scales,
                              const ProjectionNormOptions& options) {
  constexpr std::string_view op = "projection_norm_backward";
  const Operands check(op);
  check_rows(check, op, x, slopes, options);
  check_rows(check, op, x, squares, options);
  check_scales(check, x, scales, options);
  check_scales(check, x, gradients, options);
  check.is("dqkv", dqkv, x.dtype, x.shape);
  check.disjoint("dqkv", dqkv, "x", x);
  TRIREME_DISPATCH(stream, projection_norm_backward,
                   reads(squares, slopes, scales.queries, scales.keys)
                       .bytes(2 * normed_bytes(x, options), normed_bytes(x, options))
                       .updates(gradients.queries, gradients.keys)
                       .kernels(3),
                   dqkv, gradients, x, squares, slopes, scales, options);
}

}  // namespace trireme::ops
