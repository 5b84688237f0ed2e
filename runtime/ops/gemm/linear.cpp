// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/gemm/linear.h"

#include <utility>

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"
#include "runtime/ops/elementwise/activation.h"

namespace trireme::ops {

TRIREME_KERNELS(linear_forward, linear_backward_input, linear_backward_weight, linear_gelu_forward,
                linear_gelu_backward_input);

namespace {

// rows of x or y as a matrix whose columns are `features`.
void check_rows(std::string_view op, std::string_view name, const Tensor& tensor,
                std::int64_t features, std::string_view weight, const Tensor& w) {
  TRIREME_EXPECTS(tensor.shape.rank() >= 1 && tensor.shape.back() == features,
                  "{}: {} has shape {}, but {} of shape {} needs a last extent of {}", op, name,
                  tensor.shape.to_string(), weight, w.shape.to_string(), features);
}

void check_same_rows(std::string_view op, const Tensor& x, const Tensor& y) {
  TRIREME_EXPECTS(x.shape.rows() == y.shape.rows(),
                  "{}: the operands of shapes {} and {} differ in rows", op, x.shape.to_string(),
                  y.shape.to_string());
}

void check_forward(const Stream& stream, std::string_view op, const Operands& check,
                   const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias) {
  check.compute_dtype("w", w);
  check.rank("w", w, 2);
  check.present("x", x);
  check.present("y", y);
  check.dtype("x", x, w.dtype);
  check.dtype("y", y, w.dtype);
  check_rows(op, "x", x, w.shape[1], "w", w);
  check_rows(op, "y", y, w.shape[0], "w", w);
  check_same_rows(op, x, y);
  check.disjoint("y", y, "x", x);
  check.disjoint("y", y, "w", w);
  if (bias.empty()) return;
  const bool rounded = bias.dtype == y.dtype && stream.device().type() == DeviceType::cuda;
  check.is("bias", bias, rounded ? y.dtype : DType::f32, Shape{w.shape[0]});
}

void check_backward_input(std::string_view op, const Tensor& dx, const Tensor& dy,
                          const Tensor& w) {
  const Operands check(op);
  check.compute_dtype("w", w);
  check.rank("w", w, 2);
  check.present("dx", dx);
  check.present("dy", dy);
  check.dtype("dx", dx, w.dtype);
  check.dtype("dy", dy, w.dtype);
  check_rows(op, "dx", dx, w.shape[1], "w", w);
  check_rows(op, "dy", dy, w.shape[0], "w", w);
  check_same_rows(op, dx, dy);
  check.disjoint("dx", dx, "dy", dy);
  check.disjoint("dx", dx, "w", w);
}

// For a 16-bit product an f32 bias is first rounded to its dtype.
Passes forward_passes(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias) {
  const double rounded = bias.empty() || y.dtype == bias.dtype
                             ? 0
                             : static_cast<double>(bias.count() * size_of(y.dtype));
  return reads(x, w, bias)
      .bytes(rounded, rounded)
      .multiplies(x.shape.rows(), w.shape[0], w.shape[1])
      .kernels(rounded > 0 ? 2 : 1);
}

}  // namespace

void linear_forward(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& w,
                    const Tensor& bias, const Tensor& residual) {
  constexpr std::string_view op = "linear_forward";
  const Operands check(op);
  check_forward(stream, op, check, y, x, w, bias);
  if (!residual.empty()) {
    check.dtype("residual", residual, w.dtype);
    check_rows(op, "residual", residual, w.shape[0], "w", w);
    check_same_rows(op, residual, y);
    check.disjoint("y", y, "residual", residual);
  }
  TRIREME_DISPATCH(stream, linear_forward, forward_passes(y, x, w, bias).reads(residual).writes(y),
                   y, x, w, bias, residual);
}

void linear_backward_input(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w,
                           bool accumulate) {
  check_backward_input("linear_backward_input", dx, dy, w);
  TRIREME_DISPATCH(stream, linear_backward_input,
                   reads(dy, w)
                       .writes_or_adds(accumulate, dx)
                       .multiplies(dy.shape.rows(), w.shape[0], w.shape[1]),
                   dx, dy, w, accumulate);
}

void linear_backward_weight(Stream& stream, const Tensor& dw, const Tensor& db, const Tensor& dy,
                            const Tensor& x) {
  constexpr std::string_view op = "linear_backward_weight";
  const Operands check(op);
  check.present("dw", dw);
  check.dtype("dw", dw, DType::f32);
  check.rank("dw", dw, 2);
  check.compute_dtype("x", x);
  check.present("dy", dy);
  check.dtype("dy", dy, x.dtype);
  check_rows(op, "x", x, dw.shape[1], "dw", dw);
  check_rows(op, "dy", dy, dw.shape[0], "dw", dw);
  check_same_rows(op, x, dy);
  check.disjoint("dw", dw, "dy", dy);
  check.disjoint("dw", dw, "x", x);
  if (!db.empty()) {
    check.is("db", db, DType::f32, Shape{dw.shape[0]});
    check.disjoint("db", db, "dw", dw);
    check.disjoint("db", db, "dy", dy);
    check.disjoint("db", db, "x", x);
  }
  TRIREME_DISPATCH(stream, linear_backward_weight,
                   reads(dy, x)
                       .updates(dw, db)
                       .reads_if(!db.empty() && !stream.policy().fused_epilogues, dy)
                       .multiplies(dy.shape.rows(), dw.shape[0], dw.shape[1])
                       .of_parameters()
                       .kernels(db.empty() ? 1 : 2),
                   dw, db, dy, x);
}

void linear_gelu_forward(Stream& stream, const Tensor& y, const Tensor& pre, const Tensor& x,
                         const Tensor& w, const Tensor& bias) {
  constexpr std::string_view op = "linear_gelu_forward";
  const Operands check(op);
  check_forward(stream, op, check, y, x, w, bias);
  check.is("pre", pre, y.dtype, y.shape);
  for (const auto& [name, other] : {std::pair{"y", &y}, {"x", &x}, {"w", &w}})
    check.disjoint("pre", pre, name, *other);
  if (bias.empty() || !stream.policy().fused_epilogues) {
    linear_forward(stream, pre, x, w, bias);
    activation_forward(stream, y, pre, ActivationKind::gelu_tanh);
    return;
  }
  TRIREME_DISPATCH(stream, linear_gelu_forward, forward_passes(y, x, w, bias).writes(pre, y), y,
                   pre, x, w, bias);
}

void linear_gelu_backward_input(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w,
                                const Tensor& pre) {
  constexpr std::string_view op = "linear_gelu_backward_input";
  check_backward_input(op, dx, dy, w);
  const Operands check(op);
  check.is("pre", pre, dx.dtype, dx.shape);
  check.disjoint("dx", dx, "pre", pre);
  if (!stream.policy().fused_epilogues) {
    linear_backward_input(stream, dx, dy, w);
    activation_backward(stream, dx, dx, pre, ActivationKind::gelu_tanh);
    return;
  }
  TRIREME_DISPATCH(stream, linear_gelu_backward_input,
                   reads(dy, w, pre).writes(dx).multiplies(dy.shape.rows(), w.shape[0], w.shape[1]),
                   dx, dy, w, pre);
}

}  // namespace trireme::ops
