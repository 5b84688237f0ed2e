// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/elementwise/gelu.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNEL(gelu_forward);
TRIREME_KERNEL(gelu_backward);

void gelu_forward(Stream& stream, const Tensor& y, const Tensor& x, GeluForm form,
                  const Tensor& amax) {
  const Operands check("gelu_forward");
  check.compute_dtype("y", y);
  check.is("x", x, y.dtype, y.shape);
  check.same_or_disjoint("y", y, "x", x);
  check.largest_magnitude(amax, "y", y);
  TRIREME_DISPATCH(stream, gelu_forward, reads(x).writes(y, amax), y, x, form, amax);
}

void gelu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x,
                   GeluForm form, const Tensor& amax) {
  const Operands check("gelu_backward");
  check.compute_dtype("dx", dx);
  check.is("dy", dy, dx.dtype, dx.shape);
  check.is("x", x, dx.dtype, dx.shape);
  check.same_or_disjoint("dx", dx, "dy", dy);
  check.same_or_disjoint("dx", dx, "x", x);
  check.largest_magnitude(amax, "dx", dx);
  TRIREME_DISPATCH(stream, gelu_backward, reads(dy, x).writes(dx, amax), dx, dy, x, form, amax);
}

}  // namespace trireme::ops
