// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/loss/cross_entropy_block.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNELS(cross_entropy_block_max, cross_entropy_block_sums, cross_entropy_block_finish);

namespace {

void check_block(const Operands& check, std::string_view op, const Tensor& logits,
                 std::int64_t first_class, std::int64_t classes) {
  check.compute_dtype("logits", logits);
  check.rank("logits", logits, 2);
  TRIREME_EXPECTS(first_class >= 0 && classes >= 1,
                  "{}: a block from class {} of {} classes, expected 0 or more of 1 or more", op,
                  first_class, classes);
}

// One value a row of the logits.
void check_rows(const Operands& check, std::string_view name, const Tensor& tensor, DType dtype,
                const Tensor& logits) {
  check.present(name, tensor);
  check.dtype(name, tensor, dtype);
  check.count(name, tensor, logits.shape[0]);
  check.disjoint(name, tensor, "logits", logits);
}

// Checks shared by the last two phases.
void check_phase(const Operands& check, std::string_view op, const Tensor& logits,
                 const Tensor& maxima, const Tensor& sums, const Tensor& targets,
                 std::int64_t first_class, const CrossEntropyOptions& options) {
  check_block(check, op, logits, first_class, options.classes);
  check_rows(check, "maxima", maxima, DType::f32, logits);
  check_rows(check, "targets", targets, DType::i32, logits);
  check.is("sums", sums, DType::f64, Shape{logits.shape[0], CrossEntropySums::count});
  check.disjoint("sums", sums, "logits", logits);
  check.disjoint("sums", sums, "maxima", maxima);
  TRIREME_EXPECTS(options.label_smoothing >= 0.0F && options.label_smoothing < 1.0F,
                  "{}: a label smoothing of {}, expected [0, 1)", op, options.label_smoothing);
  TRIREME_EXPECTS(options.weights == nullptr, "{}: got weights of rows, which it does not use", op);
}

}  // namespace

void cross_entropy_block_max(Stream& stream, const Tensor& maxima, const Tensor& logits,
                             std::int64_t first_class, std::int64_t classes, bool accumulate) {
  constexpr std::string_view op = "cross_entropy_block_max";
  const Operands check(op);
  check_block(check, op, logits, first_class, classes);
  check_rows(check, "maxima", maxima, DType::f32, logits);
  TRIREME_DISPATCH(stream, cross_entropy_block_max,
                   reads(logits).writes_or_adds(accumulate, maxima), maxima, logits, first_class,
                   classes, accumulate);
}

void cross_entropy_block_sums(Stream& stream, const Tensor& sums, const Tensor& maxima,
                              const Tensor& logits, const Tensor& targets, std::int64_t first_class,
                              const CrossEntropyOptions& options) {
  constexpr std::string_view op = "cross_entropy_block_sums";
  const Operands check(op);
  check_phase(check, op, logits, maxima, sums, targets, first_class, options);
  TRIREME_DISPATCH(stream, cross_entropy_block_sums, reads(maxima, logits, targets).writes(sums),
                   sums, maxima, logits, targets, first_class, options);
}

void cross_entropy_block_finish(Stream& stream, const Tensor& losses, const Tensor& correct,
                                const Tensor& logits, const Tensor& maxima, const Tensor& sums,
                                const Tensor& targets, std::int64_t first_class,
                                const CrossEntropyOptions& options) {
  constexpr std::string_view op = "cross_entropy_block_finish";
  const Operands check(op);
  check_phase(check, op, logits, maxima, sums, targets, first_class, options);
  for (const Tensor& result : {losses, correct}) {
    if (result.empty()) continue;
    check_rows(check, "losses or correct", result, DType::f32, logits);
    check.disjoint("losses or correct", result, "maxima", maxima);
    check.disjoint("losses or correct", result, "sums", sums);
  }
  check.disjoint("losses", losses, "correct", correct);
  TRIREME_DISPATCH(stream, cross_entropy_block_finish,
                   reads(maxima, sums, targets)
                       .reads_if(options.write_gradient, logits)
                       .writes_if(options.write_gradient, logits)
                       .writes(losses, correct),
                   losses, correct, logits, maxima, sums, targets, first_class, options);
}

}  // namespace trireme::ops
