// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/dropout.h"

#include "runtime/ops/dispatch.h"
#include "runtime/ops/dropout_cpu.h"
#include "runtime/ops/operands.h"

namespace trireme::ops {

void dropout(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& sample_ids,
             const Tensor& rng, std::uint64_t layer, float probability) {
  const Operands check("dropout");
  check.compute_dtype("y", y);
  check.is("x", x, y.dtype, y.shape);
  TRIREME_EXPECTS(y.shape.rank() >= 1, "dropout: y has no batch axis");
  check.is("sample_ids", sample_ids, DType::i64, Shape{y.shape[0]});
  check.is("rng", rng, DType::u64, Shape{2});
  check.same_or_disjoint("y", y, "x", x);
  check.disjoint("y", y, "sample_ids", sample_ids);
  TRIREME_EXPECTS(probability >= 0.0F && probability < 1.0F,
                  "dropout: probability {} is not in [0, 1)", probability);
  TRIREME_DISPATCH(stream, dropout, y, x, sample_ids, rng, layer, probability);
}

}  // namespace trireme::ops
