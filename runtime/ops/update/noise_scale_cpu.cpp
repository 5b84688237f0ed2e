// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/update/noise_scale_math.h"

namespace trireme::ops::cpu {

void estimate_noise(Stream& stream, const Tensor& state, const Tensor& squares,
                    const NoiseOptions& options) {
  enqueue(stream,
          [state = state.as<double>(), squares = squares.as<double>(),
           operands = NoiseOperands(options)] { add_measurement(state, squares, operands); });
}

}  // namespace trireme::ops::cpu
