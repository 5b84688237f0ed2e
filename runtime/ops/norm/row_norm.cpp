// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/norm/row_norm.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNELS(layer_norm_forward, layer_norm_backward, rms_norm_forward, rms_norm_backward);

namespace {

// A per-row statistic: f32, one value a row of x, in any shape.
void check_statistic(const Operands& check, std::string_view name, const Tensor& statistic,
                     const Tensor& x) {
  check.present(name, statistic);
  check.dtype(name, statistic, DType::f32);
  check.count(name, statistic, x.shape.rows());
}

void check_input(const Operands& check, std::string_view op, const Tensor& x, const Tensor& gamma,
                 const Tensor& rstd) {
  check.compute_dtype("x", x);
  TRIREME_EXPECTS(x.shape.rank() >= 1, "{}: x has shape {}, expected at least one extent", op,
                  x.shape.to_string());
  check.is("gamma", gamma, DType::f32, Shape{x.shape.back()});
  check_statistic(check, "rstd", rstd, x);
}

void check_output(const Operands& check, const Tensor& y, const Tensor& x, const Tensor& amax) {
  check.is("y", y, x.dtype, x.shape);
  check.same_or_disjoint("y", y, "x", x);
  check.largest_magnitude(amax, "y", y);
}

void check_gradients(const Operands& check, std::string_view op, const Tensor& dx,
                     const Tensor& dgamma, const Tensor& dy, const Tensor& x, bool accumulate,
                     const Tensor& amax) {
  check.is("dy", dy, x.dtype, x.shape);
  TRIREME_EXPECTS(!dx.empty() || !dgamma.empty(), "{}: neither dx nor dgamma is wanted", op);
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
}

}  // namespace

void layer_norm_forward(Stream& stream, const Tensor& y, const Tensor& mean, const Tensor& rstd,
                        const Tensor& x, const Tensor& gamma, const Tensor& beta, float epsilon,
                        const Tensor& amax) {
  constexpr std::string_view op = "layer_norm_forward";
  const Operands check(op);
  check_input(check, op, x, gamma, rstd);
  check_output(check, y, x, amax);
  check_statistic(check, "mean", mean, x);
  check.is("beta", beta, DType::f32, Shape{x.shape.back()});
  TRIREME_DISPATCH(stream, layer_norm_forward, reads(x, gamma, beta).writes(y, mean, rstd, amax), y,
                   mean, rstd, x, gamma, beta, epsilon, amax);
}

void layer_norm_backward(Stream& stream, const Tensor& dx, const Tensor& dgamma,
                         const Tensor& dbeta, const Tensor& dy, const Tensor& x,
                         const Tensor& gamma, const Tensor& mean, const Tensor& rstd,
                         bool accumulate, const Tensor& amax) {
  constexpr std::string_view op = "layer_norm_backward";
  const Operands check(op);
  check_input(check, op, x, gamma, rstd);
  check_gradients(check, op, dx, dgamma, dy, x, accumulate, amax);
  check_statistic(check, "mean", mean, x);
  if (!dgamma.empty() || !dbeta.empty()) {
    check.is("dbeta", dbeta, DType::f32, gamma.shape);
    check.present("dgamma", dgamma);
    check.disjoint("dgamma", dgamma, "dbeta", dbeta);
  }
  TRIREME_DISPATCH(stream, layer_norm_backward,
                   reads(dy, x, gamma, mean, rstd)
                       .writes_or_adds(accumulate, dx)
                       .writes(amax)
                       .updates(dgamma, dbeta),
                   dx, dgamma, dbeta, dy, x, gamma, mean, rstd, accumulate, amax);
}

void rms_norm_forward(Stream& stream, const Tensor& y, const Tensor& rstd, const Tensor& x,
                      const Tensor& gamma, float epsilon, const Tensor& amax, float offset) {
  constexpr std::string_view op = "rms_norm_forward";
  const Operands check(op);
  check_input(check, op, x, gamma, rstd);
  check_output(check, y, x, amax);
  TRIREME_DISPATCH(stream, rms_norm_forward, reads(x, gamma).writes(y, rstd, amax), y, rstd, x,
                   gamma, epsilon, amax, offset);
}

void rms_norm_backward(Stream& stream, const Tensor& dx, const Tensor& dgamma, const Tensor& dy,
                       const Tensor& x, const Tensor& gamma, const Tensor& rstd, bool accumulate,
                       const Tensor& amax, float offset) {
  constexpr std::string_view op = "rms_norm_backward";
  const Operands check(op);
  check_input(check, op, x, gamma, rstd);
  check_gradients(check, op, dx, dgamma, dy, x, accumulate, amax);
  TRIREME_DISPATCH(
      stream, rms_norm_backward,
      reads(dy, x, gamma, rstd).writes_or_adds(accumulate, dx).writes(amax).updates(dgamma), dx,
      dgamma, dy, x, gamma, rstd, accumulate, amax, offset);
}

}  // namespace trireme::ops
