// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/loss/value_loss_math.h"

namespace trireme::ops::cpu {

void value_loss(Stream& stream, const Tensor& losses, const Tensor& errors,
                const Tensor& predictions, const Tensor& targets, const ValueLossOptions& options) {
  visit_compute_dtype(predictions.dtype, [&](auto type) {
    enqueue(stream,
            [work = value_losses<decltype(type)>(losses, errors, predictions, targets, options),
             n = predictions.count()] {
              const float scale = work.scale();
              for (std::int64_t i = 0; i < n; ++i)
                work.run(i, scale);
            });
  });
}

}  // namespace trireme::ops::cpu
