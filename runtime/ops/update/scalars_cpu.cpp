// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/update/loss_guard_math.h"
#include "runtime/ops/update/noise_scale_math.h"
#include "runtime/ops/update/optimizer_update.h"

namespace trireme::ops::cpu {

void guard_loss(Stream& stream, const Tensor& scalars, const Tensor& state, const Tensor& sums,
                const LossGuardOptions& options) {
  enqueue(stream,
          [scalars = scalars.as<float>(), state = state.as<double>(), sums = sums.as<double>(),
           micro_batches = sums.count() / LossSums::count, options] {
            if (!guard_step(state, sums, micro_batches, options))
              scalars[StepScalars::gradient_scale] = 0.0F;
          });
}

void estimate_noise(Stream& stream, const Tensor& state, const Tensor& squares,
                    const NoiseOptions& options) {
  enqueue(stream,
          [state = state.as<double>(), squares = squares.as<double>(),
           operands = NoiseOperands(options)] { add_measurement(state, squares, operands); });
}

}  // namespace trireme::ops::cpu
