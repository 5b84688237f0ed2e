// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/norm/packed_norm.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNELS(packed_norm_sums, packed_norm_forward, packed_norm_backward);

namespace {

// `sums` may be absent.
Shape check_rows(const Operands& check, std::string_view op, const Tensor& x,
                 const PackedNormOptions& options, const Tensor& sums) {
  check.compute_dtype("x", x);
  check.rank("x", x, 3);
  const std::int64_t all = options.heads + 2 * options.kv_heads;
  TRIREME_EXPECTS(
      options.heads >= 1 && options.kv_heads >= 1 && options.blocks >= 1 && x.shape[2] % all == 0,
      "{}: x of shape {} cannot be split into {} heads and 2 times {} key heads", op,
      x.shape.to_string(), options.heads, options.kv_heads);
  const Shape of_sums{x.shape[0] * x.shape[1], options.runs()};
  if (!sums.empty()) check.is("sums", sums, DType::f32, of_sums);
  return of_sums;
}

void check_scales(const Operands& check, const Tensor& x, const PackedScales& scales,
                  const PackedNormOptions& options) {
  const std::int64_t size = x.shape[2] / (options.heads + 2 * options.kv_heads);
  check.is("queries", scales.queries, DType::f32,
           Shape{options.whole ? options.heads * size : size});
  check.is("keys", scales.keys, DType::f32, Shape{options.whole ? options.kv_heads * size : size});
}

// Bytes of queries and keys.
double normed_bytes(const Tensor& x, const PackedNormOptions& options) {
  const auto all = static_cast<double>(options.heads + 2 * options.kv_heads);
  return static_cast<double>(x.bytes()) * static_cast<double>(options.heads + options.kv_heads) /
         all;
}

}  // namespace

void packed_norm_sums(Stream& stream, const Tensor& sums, const Tensor& x,
                      const PackedNormOptions& options, const Tensor& dy, const Tensor& rstd,
                      const PackedScales& scales) {
  constexpr std::string_view op = "packed_norm_sums";
  const Operands check(op);
  check.is("sums", sums, DType::f32, check_rows(check, op, x, options, {}));
  if (!dy.empty()) {
    check.is("dy", dy, x.dtype, x.shape);
    check.is("rstd", rstd, DType::f32, sums.shape);
    check_scales(check, x, scales, options);
  }
  TRIREME_DISPATCH(stream, packed_norm_sums,
                   reads(rstd, scales.queries, scales.keys)
                       .bytes((dy.empty() ? 1 : 2) * normed_bytes(x, options), 0)
                       .writes(sums),
                   sums, x, options, dy, rstd, scales);
}

void packed_norm_forward(Stream& stream, const Tensor& y, const Tensor& rstd, const Tensor& x,
                         const PackedScales& scales, const PackedNormOptions& options,
                         const Tensor& squares) {
  constexpr std::string_view op = "packed_norm_forward";
  const Operands check(op);
  check.is("rstd", rstd, DType::f32, check_rows(check, op, x, options, squares));
  check_scales(check, x, scales, options);
  check.is("y", y, x.dtype, x.shape);
  check.disjoint("y", y, "x", x);
  TRIREME_DISPATCH(stream, packed_norm_forward,
                   reads(x, squares, scales.queries, scales.keys).writes(y, rstd), y, rstd, x,
                   scales, options, squares);
}

void packed_norm_backward(Stream& stream, const Tensor& dqkv, const PackedScales& gradients,
                          const Tensor& x, const Tensor& rstd, const PackedScales& scales,
                          const PackedNormOptions& options, const Tensor& slopes) {
  constexpr std::string_view op = "packed_norm_backward";
  const Operands check(op);
  check.is("rstd", rstd, DType::f32, check_rows(check, op, x, options, slopes));
  check_scales(check, x, scales, options);
  check_scales(check, x, gradients, options);
  check.is("dqkv", dqkv, x.dtype, x.shape);
  check.disjoint("dqkv", dqkv, "x", x);
  TRIREME_DISPATCH(stream, packed_norm_backward,
                   reads(rstd, rstd, slopes, scales.queries, scales.keys)
                       .bytes(4 * normed_bytes(x, options), normed_bytes(x, options))
                       .updates(gradients.queries, gradients.keys)
                       .kernels(gradients.queries.shape == gradients.keys.shape ? 2 : 3),
                   dqkv, gradients, x, rstd, scales, options, slopes);
}

}  // namespace trireme::ops
