// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/update/exact_sum.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNELS(accumulate_squares_exact, exact_sum_values);

void accumulate_squares_exact(Stream& stream, const Tensor& state, const Tensor& x) {
  const Operands check("accumulate_squares_exact");
  check.is("state", state, DType::u64, Shape{exact_sum_words});
  check.dtype("x", x, DType::f32);
  if (x.count() != 0) check.present("x", x);
  check.disjoint("state", state, "x", x);
  TRIREME_DISPATCH(stream, accumulate_squares_exact, reads(x).updates(state), state, x);
}

void exact_sum_values(Stream& stream, const Tensor& totals, const Tensor& states) {
  const Operands check("exact_sum_values");
  check.present("totals", totals);
  check.dtype("totals", totals, DType::f64);
  check.present("states", states);
  check.dtype("states", states, DType::u64);
  check.count("states", states, totals.count() * exact_sum_words);
  check.disjoint("totals", totals, "states", states);
  TRIREME_DISPATCH(stream, exact_sum_values, reads(states).writes(totals), totals, states);
}

}  // namespace trireme::ops
