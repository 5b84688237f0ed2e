// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/loss/value_loss.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNELS(value_loss);

void value_loss(Stream& stream, const Tensor& losses, const Tensor& errors,
                const Tensor& predictions, const Tensor& targets, const ValueLossOptions& options) {
  const Operands check("value_loss");
  check.compute_dtype("predictions", predictions);
  check.rank("predictions", predictions, 2);
  check.present("targets", targets);
  check.dtype("targets", targets, DType::f32);
  check.count("targets", targets, predictions.count());
  check.disjoint("targets", targets, "predictions", predictions);
  check.present("losses", losses);
  check.dtype("losses", losses, DType::f32);
  check.count("losses", losses, predictions.count());
  check.disjoint("losses", losses, "predictions", predictions);
  if (!errors.empty()) {
    check.dtype("errors", errors, DType::f32);
    check.count("errors", errors, predictions.count());
    check.disjoint("errors", errors, "predictions", predictions);
    check.disjoint("errors", errors, "losses", losses);
  }
  TRIREME_EXPECTS(options.delta > 0.0F, "value_loss: a delta of {}, expected more than 0",
                  options.delta);
  const double weights =
      options.weights == nullptr ? 0 : static_cast<double>(predictions.shape[0]) * sizeof(float);
  TRIREME_DISPATCH(stream, value_loss,
                   reads(predictions, targets)
                       .bytes(weights, 0)
                       .writes_if(options.write_gradient, predictions)
                       .writes(losses, errors),
                   losses, errors, predictions, targets, options);
}

}  // namespace trireme::ops
