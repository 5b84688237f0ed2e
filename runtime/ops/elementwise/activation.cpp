// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/elementwise/activation.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNELS(activation_forward, activation_backward, gated_forward, gated_backward,
                leaky_relu_forward, leaky_relu_backward, tanh_forward, tanh_backward);

namespace {

// `half` has half the columns of the packed `whole`.
void check_halves(const Operands& check, std::string_view op, std::string_view name,
                  const Tensor& half, std::string_view whole_name, const Tensor& whole) {
  check.compute_dtype(name, half);
  check.present(whole_name, whole);
  check.dtype(whole_name, whole, half.dtype);
  TRIREME_EXPECTS(half.shape.rank() >= 1 && whole.shape.rank() == half.shape.rank() &&
                      whole.shape.back() == 2 * half.shape.back() &&
                      whole.count() == 2 * half.count(),
                  "{}: {} has shape {} and {} {}, expected twice the columns", op, name,
                  half.shape.to_string(), whole_name, whole.shape.to_string());
  check.disjoint(name, half, whole_name, whole);
}

void check_forward(const Operands& check, const Tensor& y, const Tensor& x) {
  check.compute_dtype("y", y);
  check.is("x", x, y.dtype, y.shape);
  check.same_or_disjoint("y", y, "x", x);
}

// `saved`: x or y of the forward pass.
void check_backward(const Operands& check, const Tensor& dx, const Tensor& dy,
                    std::string_view name, const Tensor& saved) {
  check.compute_dtype("dx", dx);
  check.is("dy", dy, dx.dtype, dx.shape);
  check.is(name, saved, dx.dtype, dx.shape);
  check.same_or_disjoint("dx", dx, "dy", dy);
  check.same_or_disjoint("dx", dx, name, saved);
}

void check_plain(std::string_view op, ActivationKind kind) {
  TRIREME_EXPECTS(kind != ActivationKind::clamped_swiglu, "{}: clamped_swiglu without values", op);
}
void check_slope(std::string_view op, float slope) {
  TRIREME_EXPECTS(slope >= 0.0F, "{}: a slope of {}, expected 0 or more", op, slope);
}
void check_scale(std::string_view op, float scale) {
  TRIREME_EXPECTS(scale > 0.0F, "{}: a scale of {}, expected more than 0", op, scale);
}

}  // namespace

void activation_forward(Stream& stream, const Tensor& y, const Tensor& x, ActivationKind kind,
                        const Tensor& amax) {
  const Operands check("activation_forward");
  check_forward(check, y, x);
  check_plain("activation_forward", kind);
  check.largest_magnitude(amax, "y", y);
  TRIREME_DISPATCH(stream, activation_forward, reads(x).writes(y, amax), y, x, kind, amax);
}

void activation_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x,
                         ActivationKind kind, const Tensor& amax) {
  const Operands check("activation_backward");
  check_backward(check, dx, dy, "x", x);
  check_plain("activation_backward", kind);
  check.largest_magnitude(amax, "dx", dx);
  TRIREME_DISPATCH(stream, activation_backward, reads(dy, x).writes(dx, amax), dx, dy, x, kind,
                   amax);
}

void gated_forward(Stream& stream, const Tensor& y, const Tensor& x, ActivationKind kind,
                   const Tensor& amax) {
  const Operands check("gated_forward");
  check_halves(check, "gated_forward", "y", y, "x", x);
  check.largest_magnitude(amax, "y", y);
  TRIREME_DISPATCH(stream, gated_forward, reads(x).writes(y, amax), y, x, kind, amax);
}

void gated_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x,
                    ActivationKind kind, const Tensor& amax) {
  const Operands check("gated_backward");
  check_halves(check, "gated_backward", "dy", dy, "x", x);
  check.is("dx", dx, x.dtype, x.shape);
  check.same_or_disjoint("dx", dx, "x", x);
  check.disjoint("dx", dx, "dy", dy);
  check.largest_magnitude(amax, "dx", dx);
  TRIREME_DISPATCH(stream, gated_backward, reads(dy, x).writes(dx, amax), dx, dy, x, kind, amax);
}

void leaky_relu_forward(Stream& stream, const Tensor& y, const Tensor& x, float slope) {
  check_forward(Operands("leaky_relu_forward"), y, x);
  check_slope("leaky_relu_forward", slope);
  TRIREME_DISPATCH(stream, leaky_relu_forward, reads(x).writes(y), y, x, slope);
}

void leaky_relu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& y,
                         float slope) {
  check_backward(Operands("leaky_relu_backward"), dx, dy, "y", y);
  check_slope("leaky_relu_backward", slope);
  TRIREME_DISPATCH(stream, leaky_relu_backward, reads(dy, y).writes(dx), dx, dy, y, slope);
}

void tanh_forward(Stream& stream, const Tensor& y, const Tensor& x, float scale) {
  check_forward(Operands("tanh_forward"), y, x);
  check_scale("tanh_forward", scale);
  TRIREME_DISPATCH(stream, tanh_forward, reads(x).writes(y), y, x, scale);
}

void tanh_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& y,
                   float scale) {
  check_backward(Operands("tanh_backward"), dx, dy, "y", y);
  check_scale("tanh_backward", scale);
  TRIREME_DISPATCH(stream, tanh_backward, reads(dy, y).writes(dx), dx, dy, y, scale);
}

}  // namespace trireme::ops
