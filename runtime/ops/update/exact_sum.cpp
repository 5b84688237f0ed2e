// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/update/exact_sum.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNEL(accumulate_squares_exact);
TRIREME_KERNEL(exact_sum_value);

void accumulate_squares_exact(Stream& stream, const Tensor& state, const Tensor& x) {
  const Operands check("accumulate_squares_exact");
  check.is("state", state, DType::u64, Shape{exact_sum_words});
  check.dtype("x", x, DType::f32);
  if (x.count() != 0) check.present("x", x);
  check.disjoint("state", state, "x", x);
  TRIREME_DISPATCH(stream, accumulate_squares_exact, state, x);
}

void exact_sum_value(Stream& stream, const Tensor& total, const Tensor& state) {
  const Operands check("exact_sum_value");
  check.is("total", total, DType::f64, Shape{1});
  check.is("state", state, DType::u64, Shape{exact_sum_words});
  check.disjoint("total", total, "state", state);
  TRIREME_DISPATCH(stream, exact_sum_value, total, state);
}

}  // namespace trireme::ops
