// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/elementwise/elementwise.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNELS(add_in_place, scale_in_place, relu_forward, relu_backward, cast, accumulate_sum);

void add_in_place(Stream& stream, const Tensor& y, const Tensor& x) {
  const Operands check("add_in_place");
  check.compute_dtype("y", y);
  check.is("x", x, y.dtype, y.shape);
  check.same_or_disjoint("y", y, "x", x);
  TRIREME_DISPATCH(stream, add_in_place, reads(x).updates(y), y, x);
}

void scale_in_place(Stream& stream, const Tensor& y, float factor) {
  const Operands check("scale_in_place");
  check.compute_dtype("y", y);
  TRIREME_DISPATCH(stream, scale_in_place, updates(y), y, factor);
}

void relu_forward(Stream& stream, const Tensor& y, const Tensor& a, const Tensor& b) {
  const Operands check("relu_forward");
  check.compute_dtype("y", y);
  check.is("a", a, y.dtype, y.shape);
  check.same_or_disjoint("y", y, "a", a);
  if (!b.empty()) {
    check.is("b", b, y.dtype, y.shape);
    check.same_or_disjoint("y", y, "b", b);
  }
  TRIREME_DISPATCH(stream, relu_forward, reads(a, b).writes(y), y, a, b);
}

void relu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& y) {
  const Operands check("relu_backward");
  check.compute_dtype("dx", dx);
  check.is("dy", dy, dx.dtype, dx.shape);
  check.is("y", y, dx.dtype, dx.shape);
  check.same_or_disjoint("dx", dx, "dy", dy);
  check.disjoint("dx", dx, "y", y);
  TRIREME_DISPATCH(stream, relu_backward, reads(dy, y).writes(dx), dx, dy, y);
}

void cast(Stream& stream, const Tensor& y, const Tensor& x) {
  const Operands check("cast");
  check.compute_dtype("y", y);
  check.compute_dtype("x", x);
  check.shape("x", x, y.shape);
  check.disjoint("y", y, "x", x);
  TRIREME_DISPATCH(stream, cast, reads(x).writes(y), y, x);
}

void accumulate_sum(Stream& stream, const Tensor& total, const Tensor& x) {
  const Operands check("accumulate_sum");
  check.reduction("total", total, DType::f64, x);
  TRIREME_DISPATCH(stream, accumulate_sum, reads(x).updates(total), total, x);
}

TRIREME_KERNELS(add_bias_residual, column_sums);

void add_bias_residual(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& bias,
                       const Tensor& residual) {
  const Operands check("add_bias_residual");
  check.compute_dtype("y", y);
  TRIREME_EXPECTS(y.shape.rank() >= 1, "add_bias_residual: y has shape {}, expected columns",
                  y.shape.to_string());
  check.compute_dtype("x", x);
  check.shape("x", x, y.shape);
  check.same_or_disjoint("y", y, "x", x);
  if (!bias.empty()) {
    check.is("bias", bias, DType::f32, Shape{y.shape.back()});
    check.disjoint("y", y, "bias", bias);
  }
  if (!residual.empty()) {
    check.is("residual", residual, y.dtype, y.shape);
    check.same_or_disjoint("y", y, "residual", residual);
  }
  TRIREME_DISPATCH(stream, add_bias_residual, reads(x, bias, residual).writes(y), y, x, bias,
                   residual);
}

void column_sums(Stream& stream, const Tensor& db, const Tensor& dy) {
  const Operands check("column_sums");
  check.compute_dtype("dy", dy);
  TRIREME_EXPECTS(dy.shape.rank() >= 1, "column_sums: dy has shape {}, expected columns",
                  dy.shape.to_string());
  check.is("db", db, DType::f32, Shape{dy.shape.back()});
  check.disjoint("db", db, "dy", dy);
  TRIREME_DISPATCH(stream, column_sums, reads(dy).updates(db).of_parameters(), db, dy);
}

}  // namespace trireme::ops
