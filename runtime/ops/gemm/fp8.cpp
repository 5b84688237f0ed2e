// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/gemm/fp8.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/float_types.h"
#include "runtime/ops/common/operands.h"
#include "runtime/ops/gemm/fp8_math.h"

namespace trireme::ops {

TRIREME_KERNELS(quantize_fp8, encode_fp8, linear_fp8);

namespace {

bool is_float8(DType dtype) {
  return dtype == DType::f8e4m3 || dtype == DType::f8e5m2;
}

void check_matrix(const Operands& check, std::string_view name, const Fp8Matrix& matrix) {
  check.present(name, matrix.codes);
  TRIREME_EXPECTS(is_float8(matrix.codes.dtype), "{} holds {}, expected an 8-bit float", name,
                  name_of(matrix.codes.dtype));
  TRIREME_EXPECTS(matrix.scaling == Fp8Scaling::tensor || matrix.codes.dtype == DType::f8e4m3,
                  "{} holds {}, and blocks hold f8e4m3", name, name_of(matrix.codes.dtype));
  check.rank(name, matrix.codes, 2);
  check.is("scale", matrix.scale, fp8_scale_dtype(matrix.scaling),
           fp8_scale_shape(matrix.scaling, matrix.codes.shape));
}

void check_operand(const Operands& check, const Fp8Operand& q, const Tensor& x) {
  check.compute_dtype("x", x);
  const std::int64_t rows = x.shape.rows(), columns = x.shape.back();
  TRIREME_EXPECTS(!q.any().codes.empty(), "no codes to write");
  const auto check_codes = [&](std::string_view name, const Fp8Matrix& matrix, const Shape& shape) {
    if (matrix.codes.empty()) return;
    check_matrix(check, name, matrix);
    check.shape(name, matrix.codes, shape);
    check.disjoint(name, matrix.codes, "x", x);
    check.disjoint("scale", matrix.scale, name, matrix.codes);
    check.disjoint("scale", matrix.scale, "x", x);
  };
  check_codes("codes", q.straight, Shape{rows, columns});
  check_codes("transposed", q.turned, Shape{columns, rows});
  if (q.straight.codes.empty() || q.turned.codes.empty()) return;
  check.disjoint("codes", q.straight.codes, "transposed", q.turned.codes);
  check.dtype("transposed", q.turned.codes, q.straight.codes.dtype);
  const bool whole = q.straight.scaling == Fp8Scaling::tensor;
  TRIREME_EXPECTS(q.straight.scaling == q.turned.scaling &&
                      whole == (q.straight.scale.data == q.turned.scale.data),
                  "codes and transposed differ in their scaling");
}

// The pairs that cuBLASLt multiplies.
bool match(Fp8Scaling a, Fp8Scaling b) {
  const auto of_128 = [](Fp8Scaling it) {
    return it == Fp8Scaling::row_128 || it == Fp8Scaling::square_128;
  };
  return a == b ? a != Fp8Scaling::square_128 : of_128(a) && of_128(b);
}

}  // namespace

DType fp8_scale_dtype(Fp8Scaling scaling) {
  return scaling == Fp8Scaling::row_32 ? DType::u8 : DType::f32;
}

Shape fp8_scale_shape(Fp8Scaling scaling, const Shape& matrix) {
  return {Fp8Blocks{scaling, matrix.rows(), matrix.back()}.scales()};
}

void quantize_fp8(Stream& stream, const Fp8Operand& q, const Tensor& x, const Tensor& amax) {
  const Operands check("quantize_fp8");
  check_operand(check, q, x);
  const bool whole = q.any().scaling == Fp8Scaling::tensor, searches = whole && amax.empty();
  check.largest_magnitude(amax, "scale", q.any().scale);
  TRIREME_EXPECTS(whole || amax.empty(), "blocks have their own maxima");
  TRIREME_DISPATCH(stream, quantize_fp8,
                   reads(x, amax)
                       .reads_if(searches, x)
                       .writes(q.straight.codes, q.turned.codes, q.any().scale)
                       .writes_if(!whole && !q.straight.codes.empty(), q.turned.scale)
                       .kernels(searches ? 2 : 1),
                   q, x, amax);
}

void encode_fp8(Stream& stream, const Fp8Operand& q, const Tensor& x) {
  if (q.any().scaling != Fp8Scaling::tensor) return quantize_fp8(stream, q, x);
  check_operand(Operands("encode_fp8"), q, x);
  TRIREME_DISPATCH(stream, encode_fp8,
                   reads(x, q.any().scale).writes(q.straight.codes, q.turned.codes), q, x);
}

void linear_fp8(Stream& stream, const Tensor& y, const Fp8Matrix& a, const Fp8Matrix& b,
                const Tensor& bias, const Tensor& residual) {
  const Operands check("linear_fp8");
  check_matrix(check, "a", a);
  check_matrix(check, "b", b);
  check.compute_dtype("y", y);
  TRIREME_EXPECTS(match(a.scaling, b.scaling), "linear_fp8: no products of these blocks");
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
  TRIREME_DISPATCH(
      stream, linear_fp8,
      reads(a.codes, a.scale, b.codes, b.scale, bias, residual)
          .writes(y)
          .multiplies(y.shape.rows(), y.shape.back(), a.codes.shape.back(), WorkRate::matmul_fp8)
          // One more to round an f32 bias, or to add it to an f32 result.
          .kernels(bias.empty() || bias.dtype != DType::f32 ? 1 : 2),
      y, a, b, bias, residual);
}

}  // namespace trireme::ops
