// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/norm/layer_norm.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNEL(layer_norm_forward);
TRIREME_KERNEL(layer_norm_backward);

namespace {

// A per-row statistic: f32, one value a row of x, in any shape.
void check_statistic(const Operands& check, std::string_view name, const Tensor& statistic,
                     const Tensor& x) {
  check.present(name, statistic);
  check.dtype(name, statistic, DType::f32);
  check.count(name, statistic, x.shape.rows());
}

void check_input(const Operands& check, const Tensor& x) {
  check.compute_dtype("x", x);
  TRIREME_EXPECTS(x.shape.rank() >= 1, "layer_norm: x has shape {}, expected at least one extent",
                  x.shape.to_string());
}

}  // namespace

void layer_norm_forward(Stream& stream, const Tensor& y, const Tensor& mean, const Tensor& rstd,
                        const Tensor& x, const Tensor& gamma, const Tensor& beta, float epsilon,
                        const Tensor& amax) {
  const Operands check("layer_norm_forward");
  check_input(check, x);
  check.is("y", y, x.dtype, x.shape);
  check.same_or_disjoint("y", y, "x", x);
  check_statistic(check, "mean", mean, x);
  check_statistic(check, "rstd", rstd, x);
  check.is("gamma", gamma, DType::f32, Shape{x.shape.back()});
  check.is("beta", beta, DType::f32, Shape{x.shape.back()});
  check.largest_magnitude(amax, "y", y);
  TRIREME_DISPATCH(stream, layer_norm_forward, reads(x, gamma, beta).writes(y, mean, rstd, amax), y,
                   mean, rstd, x, gamma, beta, epsilon, amax);
}

void layer_norm_backward(Stream& stream, const Tensor& dx, const Tensor& dgamma,
                         const Tensor& dbeta, const Tensor& dy, const Tensor& x,
                         const Tensor& gamma, const Tensor& mean, const Tensor& rstd,
                         bool accumulate, const Tensor& amax) {
  const Operands check("layer_norm_backward");
  check_input(check, x);
  check.is("dy", dy, x.dtype, x.shape);
  TRIREME_EXPECTS(!dx.empty() || !dgamma.empty(),
                  "layer_norm_backward: neither dx nor dgamma and dbeta are wanted");
  if (!dx.empty()) {
    check.is("dx", dx, x.dtype, x.shape);
    check.disjoint("dx", dx, "x", x);
    if (accumulate) {
      check.disjoint("dx", dx, "dy", dy);
    } else {
      check.same_or_disjoint("dx", dx, "dy", dy);
    }
  }
  check_statistic(check, "mean", mean, x);
  check_statistic(check, "rstd", rstd, x);
  const Shape channels{x.shape.back()};
  check.is("gamma", gamma, DType::f32, channels);
  if (!dgamma.empty() || !dbeta.empty()) {
    check.is("dgamma", dgamma, DType::f32, channels);
    check.is("dbeta", dbeta, DType::f32, channels);
    check.disjoint("dgamma", dgamma, "dbeta", dbeta);
  }
  check.largest_magnitude(amax, "dx", dx);
  TRIREME_DISPATCH(stream, layer_norm_backward,
                   reads(dy, x, gamma, mean, rstd)
                       .writes_or_adds(accumulate, dx)
                       .writes(amax)
                       .updates(dgamma, dbeta),
                   dx, dgamma, dbeta, dy, x, gamma, mean, rstd, accumulate, amax);
}

}  // namespace trireme::ops
