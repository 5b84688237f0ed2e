// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/update/block_sum.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNELS(sum_blocks);

void sum_blocks(Stream& stream, const Tensor& y, const Tensor& x, std::int64_t doubled) {
  const Operands check("sum_blocks");
  check.present("y", y);
  check.present("x", x);
  TRIREME_EXPECTS(x.shape.rank() >= 1 && x.shape[0] >= 1,
                  "sum_blocks: x has shape {}, expected one block at least", x.shape.to_string());
  TRIREME_EXPECTS(doubled >= 0 && doubled < x.shape[0], "sum_blocks: {} of {} blocks doubled",
                  doubled, x.shape[0]);
  check.shape("y", y, Shape(x.shape.extents().subspan(1)));
  if (y.dtype == DType::f64) {
    check.dtype("x", x, DType::f64);
  } else {
    check.compute_dtype("y", y);
    check.compute_dtype("x", x);
  }
  const std::int64_t size = y.count();
  const Tensor first = x.range(0, size);
  check.same_or_disjoint("y", y, "x", first);
  check.disjoint("y", y, "x", x.range(size, x.count() - size));
  TRIREME_DISPATCH(stream, sum_blocks, reads(x).writes(y), y, x, doubled);
}

}  // namespace trireme::ops
