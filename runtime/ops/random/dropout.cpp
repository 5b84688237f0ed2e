// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/random/dropout.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNELS(dropout, dropout_rows);

namespace {

void check_mask(const Operands& check, std::string_view op, const Tensor& y, const Tensor& x,
                const Tensor& sample_ids, const Tensor& rng, float probability) {
  check.compute_dtype("y", y);
  check.is("x", x, y.dtype, y.shape);
  check.is("rng", rng, DType::u64, Shape{2});
  check.same_or_disjoint("y", y, "x", x);
  check.disjoint("y", y, "sample_ids", sample_ids);
  TRIREME_EXPECTS(probability >= 0.0F && probability < 1.0F, "{}: probability {} is not in [0, 1)",
                  op, probability);
}

}  // namespace

void dropout(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& sample_ids,
             const Tensor& rng, std::uint64_t layer, float probability) {
  const Operands check("dropout");
  TRIREME_EXPECTS(y.shape.rank() >= 1, "dropout: y has no batch axis");
  check.is("sample_ids", sample_ids, DType::i64, Shape{y.shape[0]});
  check_mask(check, "dropout", y, x, sample_ids, rng, probability);
  TRIREME_DISPATCH(stream, dropout, reads(x, sample_ids, rng).writes(y), y, x, sample_ids, rng,
                   layer, probability);
}

void dropout_rows(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& sample_ids,
                  const Tensor& rng, std::uint64_t layer, float probability, std::int64_t first_row,
                  std::int64_t rows_per_sample) {
  const Operands check("dropout_rows");
  TRIREME_EXPECTS(y.shape.rank() >= 1, "dropout_rows: y has shape {}, expected columns",
                  y.shape.to_string());
  check.present("sample_ids", sample_ids);
  check.dtype("sample_ids", sample_ids, DType::i64);
  check.rank("sample_ids", sample_ids, 1);
  check_mask(check, "dropout_rows", y, x, sample_ids, rng, probability);
  const std::int64_t batch_rows = sample_ids.count() * rows_per_sample;
  TRIREME_EXPECTS(rows_per_sample >= 1 && first_row >= 0 && first_row <= batch_rows &&
                      y.shape.rows() <= batch_rows - first_row,
                  "dropout_rows: {} rows from {} lie outside {} samples of {} rows", y.shape.rows(),
                  first_row, sample_ids.count(), rows_per_sample);
  TRIREME_DISPATCH(stream, dropout_rows, reads(x, rng).writes(y), y, x, sample_ids, rng, layer,
                   probability, first_row, rows_per_sample);
}

}  // namespace trireme::ops
