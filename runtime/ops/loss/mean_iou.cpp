// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/loss/mean_iou.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"
#include "runtime/ops/update/loss_sums.h"

namespace trireme::ops {

TRIREME_KERNELS(mean_iou);

void mean_iou(Stream& stream, const Tensor& scores, const Tensor& losses, const Tensor& correct,
              const Tensor& logits, const Tensor& targets, const MeanIouOptions& options) {
  constexpr std::int64_t most_classes = 4096;  // counted in a block's shared memory
  const Operands check("mean_iou");
  check.compute_dtype("logits", logits);
  check.rank("logits", logits, 2);
  check.present("targets", targets);
  check.dtype("targets", targets, DType::i32);
  check.count("targets", targets, logits.shape[0]);
  check.is("losses", losses, DType::f32, Shape{logits.shape[0]});
  check.is("correct", correct, DType::f32, Shape{logits.shape[0]});
  check.rank("scores", scores, 2);
  check.is("scores", scores, DType::f32, Shape{LossSums::count, scores.shape[1]});
  TRIREME_EXPECTS(logits.shape[0] % scores.shape[1] == 0,
                  "mean_iou: {} pixels for scores of shape {}", logits.shape[0],
                  scores.shape.to_string());
  const std::int64_t classes = options.classes;
  TRIREME_EXPECTS(classes >= 2 && classes <= logits.shape[1] && classes <= most_classes,
                  "mean_iou: {} classes for logits of shape {}, of {} at most", classes,
                  logits.shape.to_string(), most_classes);
  TRIREME_DISPATCH(stream, mean_iou, reads(losses, correct, logits, targets).writes(scores), scores,
                   losses, correct, logits, targets, options);
}

}  // namespace trireme::ops
