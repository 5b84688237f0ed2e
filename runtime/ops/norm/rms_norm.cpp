// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/norm/rms_norm.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNEL(rms_norm_forward);
TRIREME_KERNEL(rms_norm_backward);

namespace {

// Checks x, and operands with one value per row or column.
void check_input(const Operands& check, const Tensor& x, const Tensor& gamma, const Tensor& rstd) {
  check.compute_dtype("x", x);
  TRIREME_EXPECTS(x.shape.rank() >= 1, "rms_norm: x has shape {}, expected at least one extent",
                  x.shape.to_string());
  check.is("gamma", gamma, DType::f32, Shape{x.shape.back()});
  check.present("rstd", rstd);
  check.dtype("rstd", rstd, DType::f32);
  check.count("rstd", rstd, x.shape.rows());
}

}  // namespace

void rms_norm_forward(Stream& stream, const Tensor& y, const Tensor& rstd, const Tensor& x,
                      const Tensor& gamma, float epsilon, const Tensor& residual, const Tensor& sum,
                      const Tensor& amax, float offset) {
  const Operands check("rms_norm_forward");
  check_input(check, x, gamma, rstd);
  check.is("y", y, x.dtype, x.shape);
  check.same_or_disjoint("y", y, "x", x);
  if (!residual.empty() || !sum.empty()) {
    check.is("residual", residual, x.dtype, x.shape);
    check.is("sum", sum, x.dtype, x.shape);
    check.same_or_disjoint("sum", sum, "x", x);
    check.same_or_disjoint("sum", sum, "residual", residual);
    check.disjoint("y", y, "sum", sum);
    check.same_or_disjoint("y", y, "residual", residual);
  }
  check.largest_magnitude(amax, "y", y);
  TRIREME_DISPATCH(stream, rms_norm_forward, reads(x, gamma, residual).writes(y, rstd, sum, amax),
                   y, rstd, x, gamma, epsilon, residual, sum, amax, offset);
}

void rms_norm_backward(Stream& stream, const Tensor& dx, const Tensor& dgamma, const Tensor& dy,
                       const Tensor& x, const Tensor& gamma, const Tensor& rstd, bool accumulate,
                       const Tensor& amax, float offset) {
  const Operands check("rms_norm_backward");
  check_input(check, x, gamma, rstd);
  check.is("dy", dy, x.dtype, x.shape);
  TRIREME_EXPECTS(!dx.empty() || !dgamma.empty(),
                  "rms_norm_backward: neither dx nor dgamma is wanted");
  if (!dx.empty()) {
    check.is("dx", dx, x.dtype, x.shape);
    check.disjoint("dx", dx, "x", x);
    if (accumulate) {
      check.disjoint("dx", dx, "dy", dy);
    } else {
      check.same_or_disjoint("dx", dx, "dy", dy);
    }
  }
  if (!dgamma.empty()) check.is("dgamma", dgamma, DType::f32, Shape{x.shape.back()});
  check.largest_magnitude(amax, "dx", dx);
  TRIREME_DISPATCH(
      stream, rms_norm_backward,
      reads(dy, x, gamma, rstd).writes_or_adds(accumulate, dx).writes(amax).updates(dgamma), dx,
      dgamma, dy, x, gamma, rstd, accumulate, amax, offset);
}

}  // namespace trireme::ops
