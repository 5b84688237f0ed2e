// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/loss/mean_iou.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNEL(mean_iou);

void mean_iou(Stream& stream, const Tensor& overlaps, const Tensor& logits, const Tensor& targets,
              std::int64_t classes) {
  constexpr std::int64_t most_classes = 4096;  // counted in a block's shared memory
  const Operands check("mean_iou");
  check.compute_dtype("logits", logits);
  check.rank("logits", logits, 2);
  check.present("targets", targets);
  check.dtype("targets", targets, DType::i32);
  check.count("targets", targets, logits.shape[0]);
  check.present("overlaps", overlaps);
  check.dtype("overlaps", overlaps, DType::f32);
  check.rank("overlaps", overlaps, 2);
  TRIREME_EXPECTS(overlaps.shape[0] == 2 && logits.shape[0] % overlaps.shape[1] == 0,
                  "mean_iou: {} pixels for overlaps of shape {}", logits.shape[0],
                  overlaps.shape.to_string());
  TRIREME_EXPECTS(classes >= 2 && classes <= logits.shape[1] && classes <= most_classes,
                  "mean_iou: {} classes for logits of shape {}, of {} at most", classes,
                  logits.shape.to_string(), most_classes);
  TRIREME_DISPATCH(stream, mean_iou, reads(logits, targets).writes(overlaps), overlaps, logits,
                   targets, classes);
}

}  // namespace trireme::ops
