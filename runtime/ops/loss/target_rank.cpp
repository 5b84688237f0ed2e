// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/loss/target_rank.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNELS(target_logits, target_ranks, count_below);

namespace {

void check_row_values(const Operands& check, std::string_view name, const Tensor& tensor,
                      DType dtype, const Tensor& logits) {
  check.present(name, tensor);
  check.dtype(name, tensor, dtype);
  check.count(name, tensor, logits.shape[0]);
  check.disjoint(name, tensor, "logits", logits);
}

void check_block(const Operands& check, std::string_view op, const Tensor& logits,
                 const Tensor& targets, const ClassBlock& block) {
  check.compute_dtype("logits", logits);
  check.rank("logits", logits, 2);
  check_row_values(check, "targets", targets, DType::i32, logits);
  TRIREME_EXPECTS(block.first >= 0 && block.classes >= 1,
                  "{}: a block from class {} of {} classes, expected 0 or more of 1 or more", op,
                  block.first, block.classes);
}

}  // namespace

void target_logits(Stream& stream, const Tensor& values, const Tensor& logits,
                   const Tensor& targets, const ClassBlock& block, bool accumulate) {
  constexpr std::string_view op = "target_logits";
  const Operands check(op);
  check_block(check, op, logits, targets, block);
  check_row_values(check, "values", values, DType::f32, logits);
  TRIREME_DISPATCH(
      stream, target_logits,
      reads(targets)
          .bytes(static_cast<double>(targets.count()) * static_cast<double>(size_of(logits.dtype)),
                 0)
          .writes_or_adds(accumulate, values),
      values, logits, targets, block, accumulate);
}

void target_ranks(Stream& stream, const Tensor& ranks, const Tensor& values, const Tensor& logits,
                  const Tensor& targets, const ClassBlock& block, bool accumulate) {
  constexpr std::string_view op = "target_ranks";
  const Operands check(op);
  check_block(check, op, logits, targets, block);
  check_row_values(check, "values", values, DType::f32, logits);
  check_row_values(check, "ranks", ranks, DType::f32, logits);
  check.disjoint("ranks", ranks, "values", values);
  TRIREME_DISPATCH(stream, target_ranks,
                   reads(values, logits, targets).writes_or_adds(accumulate, ranks), ranks, values,
                   logits, targets, block, accumulate);
}

void count_below(Stream& stream, const Tensor& total, const Tensor& values, float limit) {
  const Operands check("count_below");
  check.is("total", total, DType::f64, Shape{1});
  check.present("values", values);
  check.dtype("values", values, DType::f32);
  check.disjoint("total", total, "values", values);
  TRIREME_DISPATCH(stream, count_below, reads(values).updates(total), total, values, limit);
}

}  // namespace trireme::ops
