// SPDX-License-Identifier: Apache-2.0
// Private: written once for all back ends, see common/maps_cpu.h.
#pragma once

#include "runtime/ops/loss/value_loss_math.h"

namespace trireme::ops::TRIREME_BACK_END {

void value_loss(Stream& stream, const Tensor& losses, const Tensor& errors,
                const Tensor& predictions, const Tensor& targets, const ValueLossOptions& options) {
  visit_compute_dtype(predictions.dtype, [&]<typename T>(T) {
    each<run_value_loss<T>>(stream, predictions.count(),
                            value_losses<T>(losses, errors, predictions, targets, options));
  });
}

TRIREME_PROVIDES(value_loss);

}  // namespace trireme::ops::TRIREME_BACK_END
