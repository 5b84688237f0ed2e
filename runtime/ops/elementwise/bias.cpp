// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/elementwise/bias.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNEL(add_bias_residual);
TRIREME_KERNEL(column_sums);

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
  TRIREME_DISPATCH(stream, column_sums, reads(dy).updates(db), db, dy);
}

}  // namespace trireme::ops
