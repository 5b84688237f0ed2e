// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/elementwise/activation.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNEL(activation_forward);
TRIREME_KERNEL(activation_backward);
TRIREME_KERNEL(gated_forward);
TRIREME_KERNEL(gated_backward);

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

}  // namespace

void activation_forward(Stream& stream, const Tensor& y, const Tensor& x, ActivationKind kind,
                        const Tensor& amax) {
  const Operands check("activation_forward");
  check.compute_dtype("y", y);
  check.is("x", x, y.dtype, y.shape);
  check.same_or_disjoint("y", y, "x", x);
  check.largest_magnitude(amax, "y", y);
  TRIREME_DISPATCH(stream, activation_forward, reads(x).writes(y, amax), y, x, kind, amax);
}

void activation_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x,
                         ActivationKind kind, const Tensor& amax) {
  const Operands check("activation_backward");
  check.compute_dtype("dx", dx);
  check.is("dy", dy, dx.dtype, dx.shape);
  check.is("x", x, dx.dtype, dx.shape);
  check.same_or_disjoint("dx", dx, "dy", dy);
  check.same_or_disjoint("dx", dx, "x", x);
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

}  // namespace trireme::ops
