// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/loss/cross_entropy.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNELS(cross_entropy, dice_cross_entropy, count_targets);

namespace {

// Bytes of optional operands.
double row_bytes(const CrossEntropyOptions& options, const Tensor& targets) {
  const double given =
      (options.weights != nullptr ? 1.0 / static_cast<double>(options.rows_per_weight) : 0) +
      (options.shares != nullptr ? 1 : 0);
  const double classes =
      options.class_weights == nullptr ? 0 : static_cast<double>(options.classes);
  return (static_cast<double>(targets.count()) * given + classes) * sizeof(float);
}

void check_operands(std::string_view op, const Tensor& losses, const Tensor& correct,
                    const Tensor& logits, const Tensor& targets,
                    const CrossEntropyOptions& options) {
  const Operands check(op);
  check.compute_dtype("logits", logits);
  check.rank("logits", logits, 2);
  const std::int64_t rows = logits.shape[0];
  check.present("targets", targets);
  check.dtype("targets", targets, DType::i32);
  check.count("targets", targets, rows);
  check.present("losses", losses);
  check.dtype("losses", losses, DType::f32);
  check.count("losses", losses, rows);
  check.disjoint("losses", losses, "logits", logits);
  if (!correct.empty()) {
    check.dtype("correct", correct, DType::f32);
    check.count("correct", correct, rows);
    check.disjoint("correct", correct, "logits", logits);
    check.disjoint("correct", correct, "losses", losses);
  }
  TRIREME_EXPECTS(options.classes >= 1 && options.classes <= logits.shape[1],
                  "{}: {} classes for logits of shape {}", op, options.classes,
                  logits.shape.to_string());
  TRIREME_EXPECTS(options.label_smoothing >= 0.0F && options.label_smoothing < 1.0F,
                  "{}: a label smoothing of {}, expected [0, 1)", op, options.label_smoothing);
  TRIREME_EXPECTS(options.z_loss >= 0.0F, "{}: a z_loss of {}, expected 0 or more", op,
                  options.z_loss);
  TRIREME_EXPECTS(options.rows_per_weight >= 1 && rows % options.rows_per_weight == 0,
                  "{}: {} rows with one weight for each {}", op, rows, options.rows_per_weight);
}

}  // namespace

void cross_entropy(Stream& stream, const Tensor& losses, const Tensor& correct,
                   const Tensor& logits, const Tensor& targets,
                   const CrossEntropyOptions& options) {
  check_operands("cross_entropy", losses, correct, logits, targets, options);
  TRIREME_EXPECTS(
      options.shares == nullptr || (options.class_weights == nullptr && !options.thread_rows),
      "cross_entropy: shares of two targets with weights of classes or rows by thread");
  TRIREME_DISPATCH(stream, cross_entropy,
                   reads(targets)
                       .bytes(row_bytes(options, targets), 0)
                       .reads(logits)
                       .writes_if(options.write_gradient, logits)
                       .writes(losses, correct),
                   losses, correct, logits, targets, options);
}

void dice_cross_entropy(Stream& stream, const Tensor& losses, const Tensor& correct,
                        const Tensor& logits, const Tensor& targets,
                        const CrossEntropyOptions& options) {
  check_operands("dice_cross_entropy", losses, correct, logits, targets, options);
  TRIREME_EXPECTS(options.classes >= 2 && options.shares == nullptr && !correct.empty(),
                  "dice_cross_entropy: {} classes{}", options.classes,
                  options.shares == nullptr ? "" : ", with shares of two targets");
  TRIREME_DISPATCH(stream, dice_cross_entropy,
                   reads(targets, targets, logits, logits)
                       .bytes(row_bytes(options, targets), 0)
                       .writes_if(options.write_gradient, logits)
                       .writes(losses, correct)
                       .kernels(2),
                   losses, correct, logits, targets, options);
}

void count_targets(Stream& stream, const Tensor& total, const Tensor& targets, bool zeros) {
  const Operands check("count_targets");
  check.is("total", total, DType::f64, Shape{1});
  check.present("targets", targets);
  if (targets.dtype != DType::f32) check.dtype("targets", targets, DType::i32);
  check.disjoint("total", total, "targets", targets);
  TRIREME_DISPATCH(stream, count_targets, reads(targets).updates(total), total, targets, zeros);
}

}  // namespace trireme::ops
