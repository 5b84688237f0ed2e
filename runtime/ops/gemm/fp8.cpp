// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/gemm/fp8.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/float_types.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNEL(quantize_fp8);
TRIREME_KERNEL(encode_fp8);
TRIREME_KERNEL(linear_fp8);

namespace {

bool is_float8(DType dtype) {
  return dtype == DType::f8e4m3 || dtype == DType::f8e5m2;
}

void check_matrix(const Operands& check, std::string_view name, const Fp8Matrix& matrix) {
  check.present(name, matrix.codes);
  TRIREME_EXPECTS(is_float8(matrix.codes.dtype), "{} holds {}, expected an 8-bit float", name,
                  name_of(matrix.codes.dtype));
  check.rank(name, matrix.codes, 2);
  check.is("scale", matrix.scale, DType::f32, Shape{1});
}

void check_operand(const Operands& check, const Fp8Operand& q, const Tensor& x) {
  check.compute_dtype("x", x);
  const std::int64_t rows = x.shape.rows(), columns = x.shape.back();
  TRIREME_EXPECTS(!q.codes.empty() || !q.transposed.empty(), "no codes to write");
  const auto check_codes = [&](std::string_view name, const Fp8Matrix& matrix, const Shape& shape) {
    if (matrix.codes.empty()) return;
    check_matrix(check, name, matrix);
    check.shape(name, matrix.codes, shape);
    check.disjoint(name, matrix.codes, "x", x);
    check.disjoint("scale", q.scale, name, matrix.codes);
  };
  check_codes("codes", q.straight(), Shape{rows, columns});
  check_codes("transposed", q.turned(), Shape{columns, rows});
  check.disjoint("codes", q.codes, "transposed", q.transposed);
  if (!q.codes.empty() && !q.transposed.empty())
    check.dtype("transposed", q.transposed, q.codes.dtype);
  check.disjoint("scale", q.scale, "x", x);
}

}  // namespace

void quantize_fp8(Stream& stream, const Fp8Operand& q, const Tensor& x, const Tensor& amax) {
  const Operands check("quantize_fp8");
  check_operand(check, q, x);
  check.largest_magnitude(amax, "scale", q.scale);
  TRIREME_DISPATCH(stream, quantize_fp8,
                   reads(x, amax)
                       .reads_if(amax.empty(), x)
                       .writes(q.codes, q.transposed, q.scale)
                       .kernels(amax.empty() ? 2 : 1),
                   q, x, amax);
}

void encode_fp8(Stream& stream, const Fp8Operand& q, const Tensor& x) {
  check_operand(Operands("encode_fp8"), q, x);
  TRIREME_DISPATCH(stream, encode_fp8, reads(x, q.scale).writes(q.codes, q.transposed), q, x);
}

void linear_fp8(Stream& stream, const Tensor& y, const Fp8Matrix& a, const Fp8Matrix& b,
                const Tensor& bias, const Tensor& residual) {
  const Operands check("linear_fp8");
  check_matrix(check, "a", a);
  check_matrix(check, "b", b);
  check.compute_dtype("y", y);
  const std::int64_t rows = a.codes.shape[0], columns = b.codes.shape[0];
  TRIREME_EXPECTS(a.codes.shape[1] == b.codes.shape[1],
                  "linear_fp8: a {} and b {} differ in their last extent",
                  a.codes.shape.to_string(), b.codes.shape.to_string());
  TRIREME_EXPECTS(y.shape.rows() == rows && y.shape.back() == columns,
                  "linear_fp8: y has shape {}, expected {} rows of {}", y.shape.to_string(), rows,
                  columns);
  check.disjoint("y", y, "a", a.codes);
  check.disjoint("y", y, "b", b.codes);
  const bool rounded = bias.dtype == y.dtype && stream.device().type() == DeviceType::cuda;
  if (!bias.empty()) check.is("bias", bias, rounded ? y.dtype : DType::f32, Shape{columns});
  if (!residual.empty()) {
    check.dtype("residual", residual, y.dtype);
    check.count("residual", residual, y.count());
    check.same_or_disjoint("residual", residual, "y", y);
  }
  TRIREME_DISPATCH(stream, linear_fp8,
                   reads(a.codes, a.scale, b.codes, b.scale, bias, residual)
                       .writes(y)
                       .multiplies(y.shape.rows(), y.shape.back(), a.codes.shape.back())
                       // One more to round an f32 bias, or to add it to an f32 result.
                       .kernels(bias.empty() || bias.dtype != DType::f32 ? 1 : 2),
                   y, a, b, bias, residual);
}

}  // namespace trireme::ops
