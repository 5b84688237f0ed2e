// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/loss/vrmse.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNELS(vrmse);

void vrmse(Stream& stream, const Tensor& errors, const Tensor& predictions, const Tensor& targets,
           std::int64_t channels) {
  const Operands check("vrmse");
  check.compute_dtype("predictions", predictions);
  check.rank("predictions", predictions, 2);
  check.present("targets", targets);
  check.dtype("targets", targets, DType::f32);
  check.count("targets", targets, predictions.count());
  check.present("errors", errors);
  check.dtype("errors", errors, DType::f32);
  check.count("errors", errors, predictions.shape[0]);
  TRIREME_EXPECTS(channels >= 1 && predictions.shape[1] % channels == 0,
                  "vrmse: {} channels for predictions of shape {}", channels,
                  predictions.shape.to_string());
  TRIREME_DISPATCH(stream, vrmse, reads(predictions, targets).writes(errors), errors, predictions,
                   targets, channels);
}

}  // namespace trireme::ops
