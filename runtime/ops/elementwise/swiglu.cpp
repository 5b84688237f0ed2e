// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/elementwise/swiglu.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNEL(swiglu_forward);
TRIREME_KERNEL(swiglu_backward);

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

void swiglu_forward(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& amax) {
  const Operands check("swiglu_forward");
  check_halves(check, "swiglu_forward", "y", y, "x", x);
  check.largest_magnitude(amax, "y", y);
  TRIREME_DISPATCH(stream, swiglu_forward, reads(x).writes(y, amax), y, x, amax);
}

void swiglu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x,
                     const Tensor& amax) {
  const Operands check("swiglu_backward");
  check_halves(check, "swiglu_backward", "dy", dy, "x", x);
  check.is("dx", dx, x.dtype, x.shape);
  check.same_or_disjoint("dx", dx, "x", x);
  check.disjoint("dx", dx, "dy", dy);
  check.largest_magnitude(amax, "dx", dx);
  TRIREME_DISPATCH(stream, swiglu_backward, reads(dy, x).writes(dx, amax), dx, dy, x, amax);
}

}  // namespace trireme::ops
